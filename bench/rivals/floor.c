/* What any client must do over TLS, and nothing else: hash each request's body, sign it, send it,
   and read the answer. The bodies are encoded already: nothing is parsed, retried or scheduled.
   It sends on each connection in turn, and reads the answer to the connection's last request before:
   two system calls a request, and hardly ever a wait.

   floor BODIES CONNECTIONS
   BODIES: each body after its length in four bytes, the least significant first. The endpoint,
   https://ADDRESS:PORT, and the certificate are AWS_ENDPOINT_URL_DYNAMODB and AWS_CA_BUNDLE. */
#define _GNU_SOURCE
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 1024, ANSWER = 1 << 16, MOST = 256 };
static EVP_MD *sha256;
static EVP_MD_CTX *hashing;

static void fail(const char *what) {
  fprintf(stderr, "floor: %s\n", what);
  exit(1);
}

static void hash(const void *data, size_t size, char *hex) {
  unsigned char digest[32];
  if (!EVP_DigestInit_ex2(hashing, sha256, NULL) || !EVP_DigestUpdate(hashing, data, size) ||
      !EVP_DigestFinal_ex(hashing, digest, NULL))
    fail("no SHA-256");
  for (int at = 0; at < 32; at++) {
    hex[2 * at] = "0123456789abcdef"[digest[at] >> 4];
    hex[2 * at + 1] = "0123456789abcdef"[digest[at] & 15];
  }
  hex[64] = 0;
}

static int connected(const char *host, const char *port) {
  struct addrinfo *found, wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  if (getaddrinfo(host, port, &wanted, &found)) fail("unknown host");
  int socket_ = socket(found->ai_family, found->ai_socktype, 0), on = 1;
  if (socket_ < 0 || connect(socket_, found->ai_addr, found->ai_addrlen)) fail("no connection");
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  freeaddrinfo(found);
  return socket_;
}

static void read_answer(SSL *tls, char *buffer) {
  size_t held = 0, wanted = 0;
  while (!wanted || held < wanted) {
    int got = SSL_read(tls, buffer + held, (int)(ANSWER - 1 - held));
    if (got <= 0) fail("the connection ended");
    held += (size_t)got;
    buffer[held] = 0;
    if (wanted) continue;
    char *end = strstr(buffer, "\r\n\r\n");
    if (!end) continue;
    char *length = strcasestr(buffer, "\r\ncontent-length:");
    if (!length || length > end) fail("an answer without a length");
    wanted = (size_t)(end + 4 - buffer) + strtoul(length + 17, NULL, 10);
    if (wanted >= ANSWER) fail("too long an answer");
  }
  if (strncmp(buffer, "HTTP/1.1 200 ", 13)) fail("an answer that is not 200");
  if (!strstr(buffer, "\"UnprocessedItems\": {}")) fail("unprocessed items");
}

int main(int count, char **words) {
  char host[64], port[8], *url = getenv("AWS_ENDPOINT_URL_DYNAMODB"), *ca = getenv("AWS_CA_BUNDLE");
  if (count != 3) fail("usage: floor BODIES CONNECTIONS");
  int connections = atoi(words[2]), next = 0;
  if (connections < 1 || connections > MOST) fail("1 to 256 connections");
  if (!url || !ca || sscanf(url, "https://%63[^:]:%7[0-9]", host, port) != 2) fail("no endpoint");
  FILE *bodies = fopen(words[1], "rb");
  if (!bodies) fail("no file of bodies");
  sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
  hashing = EVP_MD_CTX_new();
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (!context || SSL_CTX_load_verify_locations(context, ca, NULL) != 1) fail("no certificate");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL *open[MOST];
  int waits[MOST] = {0};
  for (int each = 0; each < connections; each++) {
    open[each] = SSL_new(context);
    SSL_set_fd(open[each], connected(host, port));
    if (SSL_connect(open[each]) != 1) fail("no TLS");
  }
  size_t room = 1 << 20;
  char *request = malloc(HEAD + room), *answer = malloc(ANSWER);
  if (!request || !answer) fail("no memory");
  unsigned char key[32] = {1}, length[4];
  while (fread(length, 1, 4, bodies) == 4) {
    size_t size = length[0] | length[1] << 8 | length[2] << 16 | (size_t)length[3] << 24;
    char of_body[65], of_request[65], canonical[512], head[HEAD], signature[65];
    if (size > room) {
      room = 2 * size;
      request = realloc(request, HEAD + room);
      if (!request) fail("no memory");
    }
    if (fread(request + HEAD, 1, size, bodies) != size) fail("a body that is cut short");
    hash(request + HEAD, size, of_body);
    int written = snprintf(canonical, sizeof canonical,
                           "POST\n/\n\nhost:%s\nx-amz-date:20260101T000000Z\n"
                           "x-amz-target:DynamoDB_20120810.BatchWriteItem\n\n"
                           "host;x-amz-date;x-amz-target\n%s",
                           host, of_body);
    hash(canonical, (size_t)written, of_request);
    unsigned char mac[32];
    unsigned int mac_size;
    if (!HMAC(EVP_sha256(), key, sizeof key, (unsigned char *)of_request, 64, mac, &mac_size))
      fail("no HMAC");
    for (int at = 0; at < 32; at++) sprintf(signature + 2 * at, "%02x", mac[at]);
    int head_size = snprintf(
        head, sizeof head,
        "POST / HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/x-amz-json-1.0\r\n"
        "X-Amz-Target: DynamoDB_20120810.BatchWriteItem\r\nX-Amz-Date: 20260101T000000Z\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=made-up/20260101/us-east-1/dynamodb/"
        "aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature=%s\r\n"
        "Content-Length: %zu\r\n\r\n",
        host, port, signature, size);
    SSL *tls = open[next];
    if (waits[next]) read_answer(tls, answer);
    waits[next] = 1;
    next = (next + 1) % connections;
    char *start = request + HEAD - head_size;
    memcpy(start, head, (size_t)head_size);
    size_t left = (size_t)head_size + size;
    while (left) {
      size_t sent;
      if (SSL_write_ex(tls, start, left, &sent) != 1) fail("the connection ended");
      start += sent;
      left -= sent;
    }
  }
  for (int each = 0; each < connections; each++)
    if (waits[each]) read_answer(open[each], answer);
  if (!feof(bodies)) fail("a length that is cut short");
  for (int each = 0; each < connections; each++) SSL_shutdown(open[each]);
  return 0;
}
