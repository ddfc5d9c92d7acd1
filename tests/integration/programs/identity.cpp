// Prints "uid euid gid egid": set-user-id root in an image, it shows what its user gains by it.

#include <unistd.h>

#include <cstdio>

int main() { std::printf("%u %u %u %u\n", ::getuid(), ::geteuid(), ::getgid(), ::getegid()); }
