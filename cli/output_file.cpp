#include "cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

namespace simrun {
namespace {

// The file that a path means: a link is followed, so that its target is replaced and not the link.
std::string target_of(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int longest_chain = 40;
  std::error_code failed;
  fs::path target = path;
  for (int links = 0; links < longest_chain && fs::is_symlink(target, failed); ++links)
    target = target.parent_path() / fs::read_symlink(target, failed);
  return target.string();
}

std::string part_name(const std::string& target) { return target + ".part" + std::to_string(::getpid()); }

int open_part(const std::string& part) {
  return ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
}

// A file without a name: whatever stops us, nothing of it stays. -1 where the file system has none.
int open_nameless(const std::string& target) {
  const std::string folder = std::filesystem::path(target).parent_path().string();
  return ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

// Gives it the name of the part, from which it takes its place at once.
bool name_file(int file, const std::string& part) {
  const std::string self = "/proc/self/fd/" + std::to_string(file);
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, part.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

bool write_all(int file, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

std::string probe_output(const std::string& path) {
  if (path.empty()) return "the path is empty";
  const std::string target = target_of(path);
  struct stat status {};
  if (::stat(target.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return "it is a directory";
    // Renaming onto a device or pipe would replace it.
    if (!S_ISREG(status.st_mode)) return "it is not a regular file";
    if (::access(target.c_str(), W_OK) != 0) return std::strerror(errno);
  }
  const std::string part = part_name(target);
  const int file = open_part(part);
  if (file < 0) return std::strerror(errno);
  ::close(file);
  ::unlink(part.c_str());
  return "";
}

void write_output(const std::string& path, const std::string& bytes, Durability durability) {
  const std::string target = target_of(path);
  const std::string part = part_name(target);
  int file = open_nameless(target);
  const bool nameless = file >= 0;
  if (!nameless) file = open_part(part);
  struct stat status {};
  bool ok = file >= 0;
  if (ok && ::stat(target.c_str(), &status) == 0) ok = ::fchmod(file, status.st_mode & 07777) == 0;
  ok = ok && write_all(file, bytes);
  if (ok && durability == Durability::synced) ok = ::fsync(file) == 0;
  if (ok && nameless) {
    ::unlink(part.c_str());  // of a process that had our number
    ok = name_file(file, part);
  }
  int error = errno;
  if (file >= 0 && ::close(file) != 0 && ok) {
    ok = false;
    error = errno;
  }
  if (ok && ::rename(part.c_str(), target.c_str()) != 0) {
    ok = false;
    error = errno;
  }
  if (ok) return;
  if (file >= 0) ::unlink(part.c_str());
  throw OutputError("cannot write " + path + ": " + std::strerror(error));
}

}  // namespace simrun
