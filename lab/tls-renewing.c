// cc: -O1 -Wall -lssl -lcrypto
/*
 * A peer that changes its keys: OpenSSL's TLS 1.3 with a PSK at one end of a TCP connection, plain text at the other. After so many bytes of a
 * connection it makes new keys once, and asks its peer to do the same (KeyUpdate, RFC 8446 section 4.6.3), as "openssl s_client" does at the letter K.
 *
 *   tls-renewing server PORT TO IDENTITY HEX BYTES     TLS is accepted at PORT of 127.0.0.1, plain text goes on to the port TO
 *   tls-renewing client PORT TO IDENTITY HEX BYTES     plain text is accepted, TLS goes on
 *
 * For tests only. What happens is told on standard error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *identity;
static unsigned char psk[64];
static size_t psk_len;

static void say(const char *what) { fprintf(stderr, "tls-renewing: %s\n", what); }

static void die(const char *what) { fprintf(stderr, "tls-renewing: %s: %s\n", what, strerror(errno)); exit(1); }

static SSL_SESSION *session(SSL *ssl)
{
	const unsigned char id[2] = { 0x13, psk_len == 32 ? 0x01 : 0x02 };
	SSL_SESSION *s = SSL_SESSION_new();
	SSL_SESSION_set1_master_key(s, psk, psk_len);
	SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, id));
	SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
	return s;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len, SSL_SESSION **sess)
{
	(void)md;
	*sess = session(ssl);
	*id = (const unsigned char *)identity;
	*len = strlen(identity);
	return 1;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **sess)
{
	*sess = len == strlen(identity) && !memcmp(id, identity, len) ? session(ssl) : NULL;
	return 1;
}

static SSL *tls(int fd, int is_server)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_ciphersuites(ctx, psk_len == 32 ? "TLS_AES_128_GCM_SHA256" : "TLS_AES_256_GCM_SHA384");
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_psk_use_session_callback(ctx, use_session);
	SSL_CTX_set_psk_find_session_callback(ctx, find_session);
	SSL *ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fd);
	if ((is_server ? SSL_accept(ssl) : SSL_connect(ssl)) != 1) {
		say("no handshake");
		ERR_print_errors_fp(stderr);
		exit(1);
	}
	return ssl;
}

struct piece { char bytes[65536]; size_t at, len; };

/* Whether this result of an encrypted connection is to be tried again; says how the connection has ended otherwise. */
static int again(SSL *ssl, int result)
{
	int why = SSL_get_error(ssl, result);
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return 1;
	say(why == SSL_ERROR_ZERO_RETURN ? "the peer has ended the connection in order" : "the connection has broken");
	return 0;
}

static void carry(SSL *ssl, int plain, size_t limit)
{
	static struct piece in, out;
	size_t passed = 0;
	int fd = SSL_get_fd(ssl), renewed = 0;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	fcntl(plain, F_SETFL, O_NONBLOCK);
	for (;;) {
		int moved = 0;
		ssize_t n;
		if (in.at == in.len) {
			if ((n = SSL_read(ssl, in.bytes, sizeof in.bytes)) > 0) {
				in.at = 0, in.len = n, passed += n, moved = 1;
			} else if (!again(ssl, n)) {
				return;
			}
		}
		if (in.at < in.len && (n = write(plain, in.bytes + in.at, in.len - in.at)) > 0) in.at += n, moved = 1;
		if (out.at == out.len) {
			if ((n = read(plain, out.bytes, sizeof out.bytes)) > 0) out.at = 0, out.len = n, passed += n, moved = 1;
			else if (n == 0 || errno != EAGAIN) return (void)SSL_shutdown(ssl);
		}
		if (out.at < out.len) {
			if ((n = SSL_write(ssl, out.bytes + out.at, out.len - out.at)) > 0) out.at += n, moved = 1;
			else if (!again(ssl, n)) return;
		}
		if (!renewed && passed >= limit && out.at == out.len) {
			renewed = 1;
			if (SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) != 1) die("no new keys");
			SSL_do_handshake(ssl);
			say("new keys");
		}
		struct pollfd both[2] = { { fd, (in.at == in.len ? POLLIN : 0) | (out.at < out.len ? POLLOUT : 0) },
					  { plain, (out.at == out.len ? POLLIN : 0) | (in.at < in.len ? POLLOUT : 0) } };
		if (!moved) poll(both, 2, 1000);
	}
}

int main(int argc, char **argv)
{
	if (argc != 7) return fprintf(stderr, "usage: tls-renewing server|client PORT TO IDENTITY HEX BYTES\n"), 2;
	int is_server = !strcmp(argv[1], "server"), on = 1;
	struct sockaddr_in at = { AF_INET, htons(atoi(argv[2])), { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_in to = { AF_INET, htons(atoi(argv[3])), { htonl(INADDR_LOOPBACK) } };
	identity = argv[4];
	while (psk_len < sizeof psk && sscanf(argv[5] + 2 * psk_len, "%2hhx", psk + psk_len) == 1) psk_len++;
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (void *)&at, sizeof at) || listen(listener, 64)) die("listen");
	say("ready");
	for (;;) {
		int accepted = accept(listener, NULL, NULL);
		if (accepted < 0 || fork()) {
			close(accepted);
			continue;
		}
		int other = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(other, (void *)&to, sizeof to)) die("connect");
		SSL *ssl = tls(is_server ? accepted : other, is_server);
		carry(ssl, is_server ? other : accepted, strtoul(argv[6], NULL, 10));
		exit(0);
	}
}
