use super::*;

fn server(token: Option<&str>) -> MetricsServer {
    let token = token.map(|token| token.as_bytes().to_vec().into());
    let pages = |PageRequest { path, plain }: PageRequest<'_>| {
        let body = if plain {
            "plain"
        } else if path == METRICS {
            "weft_x 1\n# EOF\n"
        } else {
            path
        };
        Some(Page { status: "200 OK", media_type: "text/plain", body: body.to_owned() })
    };
    MetricsServer::start("127.0.0.1:0".parse().unwrap(), token, Box::new(pages)).unwrap()
}

fn asked(server: &MetricsServer, request: &str) -> String {
    let mut client = TcpStream::connect(server.address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = client.read_to_string(&mut answer);
    answer
}

#[test]
fn requests_are_answered_by_the_book() {
    let server = server(None);
    let long = format!(
        "GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n",
        "x".repeat(METRICS_REQUEST_BYTES_MAX * 2)
    );
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX + 1));
    for (request, status, body) in [
        ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200", "weft_x 1\n# EOF\n"),
        ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200", "weft_x 1\n# EOF\n"),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "200", ""),
        ("GET / HTTP/1.1\r\n\r\n", "200", "/"),
        ("GET /healthz HTTP/1.1\r\n\r\n", "200", "/healthz"),
        (
            "GET /metrics HTTP/1.1\r\naccept: Text/Plain;version=0.0.4, */*;q=0.1\r\n\r\n",
            "200",
            "plain",
        ),
        (
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text, text/plain\r\n\r\n",
            "200",
            "weft_x 1\n# EOF\n",
        ),
        ("GET /x HTTP/1.1\r\n\r\n", "404", "404 Not Found\n"),
        ("POST / HTTP/1.1\r\n\r\n", "405", "405 Method Not Allowed\n"),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "405",
            "405 Method Not Allowed\n",
        ),
        ("\u{0}\r\n\r\n", "400", "400 Bad Request\n"),
        (&many, "431", "431 Request Header Fields Too Large\n"),
    ] {
        let answer = asked(&server, request);
        let (head, got) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")) && got == body,
            "{request:?}: {answer}"
        );
    }
    // What is behind the limit may be answered by a reset.
    assert!(!asked(&server, &long).contains("200 OK"));
}

#[test]
fn the_token_is_asked_for() {
    let server = server(Some("s3cret"));
    let with = |field: &str| asked(&server, &format!("GET /metrics HTTP/1.1\r\n{field}\r\n\r\n"));
    for field in ["Authorization: Bearer s3cret\r\n", "authorization: bearer  s3cret \r\n"] {
        assert!(with(field).starts_with("HTTP/1.1 200"), "{field}");
    }
    for field in [
        "",
        "Authorization: Bearer s3cre\r\n",
        "Authorization: Bearer s3crets\r\n",
        "Authorization: Basic s3cret\r\n",
    ] {
        let answer = with(field);
        assert!(
            answer.starts_with("HTTP/1.1 401") && answer.contains("WWW-Authenticate: Bearer"),
            "{field}"
        );
    }
    assert!(
        asked(&server, "GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 401"),
        "nothing is told without it"
    );
}

#[test]
fn silent_clients_are_few_and_do_not_stay() {
    let server = server(None);
    let mut silent: Vec<TcpStream> =
        (0..METRICS_CLIENTS_MAX).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // They keep nobody out: the oldest makes room.
    assert!(asked(&server, "GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
    let mut told = |n: usize| {
        let mut answer = String::new();
        silent[n].read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(told(0).starts_with("HTTP/1.1 503"));
    // Each is told to go in time.
    assert!(told(METRICS_CLIENTS_MAX - 1).starts_with("HTTP/1.1 408"));
}
