// The executable as a separate process, with its output in files, and a folder for its pool. For
// targets that define LODGEKVD_PATH.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/testing/temp_folder.h"
#include "server/testing/test_daemon.h"

namespace lodgekv::server::testing {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One run of lodgekvd with its output in files; killed with the object.
class Process {
 public:
  Process(std::filesystem::path directory, std::vector<std::string> arguments,
          std::vector<std::string> environment = {})
      : directory_(std::move(directory)) {
    arguments.insert(arguments.begin(), LODGEKVD_PATH);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, Out().c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_addopen(&actions, 2, Err().c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    const int error = posix_spawn(&pid_, LODGEKVD_PATH, &actions, nullptr,
                                  Pointers(arguments).data(), Pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0);
  }

  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      (void)Wait();
    }
  }

  void Signal(int signal) { kill(pid_, signal); }
  // Returns when none of its threads runs any more, which may be a moment after the signal.
  void Stop() {
    Signal(SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
  }

  // The exit code; 128 + the number of the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string out() const { return ReadFile(Out()); }
  std::string err() const { return ReadFile(Err()); }

  // The address after "name=" in the line with "serving" or "listening"; empty if it does not
  // appear within ten seconds.
  std::string AwaitAddress(const std::string& message, const std::string& name) {
    for (int i = 0; i < 1'000; ++i) {
      const std::string log = err();
      const size_t line = log.find(" " + message + " ");
      if (line != std::string::npos && log.find('\n', line) != std::string::npos) {
        const size_t begin = log.find(name + "=", line) + name.size() + 1;
        return log.substr(begin, log.find_first_of(" \n", begin) - begin);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return "";
  }

  // False if `text` is not in its log within ten seconds.
  bool AwaitLog(const std::string& text) {
    for (int i = 0; i < 1'000; ++i) {
      if (err().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  std::filesystem::path Out() const { return directory_ / "out"; }
  std::filesystem::path Err() const { return directory_ / "err"; }

  static std::vector<char*> Pointers(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  }

  const std::filesystem::path directory_;
  pid_t pid_ = 0;
};

class LodgekvdTest : public TempFolderTest {
 protected:
  LodgekvdTest() : TempFolderTest("/dev/shm") {}

  // Waits for its end: "code
  // stdout
  // stderr".
  std::string Run(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    Process process(directory_, std::move(arguments), std::move(environment));
    const int code = process.Wait();
    return std::to_string(code) + " | " + process.out() + " | " + process.err();
  }

  static std::vector<std::string> Serving(std::vector<std::string> more) {
    std::vector<std::string> arguments{"--listen",    "127.0.0.1:0",      "--admin-listen",
                                       "127.0.0.1:0", "--metrics-listen", "off"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  std::vector<std::string> OnPool() {
    return Serving(
        {"--pool", directory_ / "pool", "--pool-size", "64MiB", "--allow-volatile-medium"});
  }

  static grpc::Status Put(const std::string& address, const std::string& key,
                          const std::string& value) {
    const auto kv =
        v1::KvService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    SetDeadline(context);
    v1::PutResponse response;
    return kv->Put(&context, MakePut(key, value), &response);
  }

  static std::string Get(const std::string& address, const std::string& key) {
    const auto kv =
        v1::KvService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetRequest request;
    request.set_key(key);
    v1::GetResponse response;
    const grpc::Status status = kv->Get(&context, request, &response);
    if (!status.ok()) return CodeAndReason(status);
    return response.found() ? response.value() : "(none)";
  }
};

}  // namespace lodgekv::server::testing
