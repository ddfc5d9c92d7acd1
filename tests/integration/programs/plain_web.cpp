// Knows no proxy: plain_web HOST PORT [PATH] looks the name up by getaddrinfo(3), connects, asks by
// HTTP/1.1 and prints the answer; without PATH it prints "connected". What fails is one word.

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

int main(int count, char** arguments) {
  if (count < 3) return 2;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(arguments[1], arguments[2], &hints, &found) != 0) {
    std::puts("unknown");
    return 1;
  }
  const int socket = ::socket(found->ai_family, SOCK_STREAM, 0);
  if (::connect(socket, found->ai_addr, found->ai_addrlen) != 0) {
    std::puts(::strerrorname_np(errno));
    return 1;
  }
  if (count < 4) {
    std::puts("connected");
    return 0;
  }
  const std::string request = "GET " + std::string(arguments[3]) +
                              " HTTP/1.1\r\nHost: " + arguments[1] +
                              "\r\nConnection: close\r\n\r\n";
  if (::write(socket, request.data(), request.size()) < 0) return 1;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(socket, buffer, sizeof buffer)) > 0;)
    std::fwrite(buffer, 1, static_cast<std::size_t>(size), stdout);
}
