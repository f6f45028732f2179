//! The HTTP server of the metrics: one resource, one request for each connection. A client that sends too much, or takes too long, loses its
//! connection. httparse parses the requests.

use crate::limits::{METRICS_CLIENTS_MAX, METRICS_REQUEST_BYTES_MAX, METRICS_REQUEST_S, METRICS_SEND_S};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use weft_block::Error;

/// The resource.
const PATH: &str = "/metrics";

/// Header fields of a request at most.
const FIELDS_MAX: usize = 64;

/// A server of metrics. Dropping it closes it.
pub struct MetricsServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
}

/// What its threads share.
struct Shared {
    token: Option<Vec<u8>>,
    scrape: Box<dyn Fn() -> String + Send + Sync>,
    clients: AtomicUsize,
}

/// A status, and what is sent with it.
struct Response {
    status: &'static str,
    fields: &'static str,
    body: String,
    /// The body's length is told, and the body is not sent.
    head_only: bool,
}

impl MetricsServer {
    /// Listens. `scrape` gives the text.
    ///
    /// # Errors
    /// The error of listening.
    pub fn start(
        at: SocketAddr,
        token: Option<Vec<u8>>,
        scrape: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let failed = |e| Error::io(format!("cannot listen at {at} for metrics: {e}; choose another port with --metrics"), e);
        let listener = TcpListener::bind(at).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared { token, scrape: Box::new(scrape), clients: AtomicUsize::new(0) });
        let stop = Arc::clone(&stopping);
        let accept = move || {
            while !stop.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((client, _)) if !stop.load(Ordering::Acquire) => serve(&shared, client),
                    Ok(_) => {}
                    // No descriptors, mostly: to try again at once would not help.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        std::thread::Builder::new().name("weft-metrics".into()).spawn(accept).map_err(failed)?;
        Ok(Self { address, stopping })
    }

    /// The URL of the metrics.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

/// The place of a client.
struct Seat(Arc<Shared>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers a client on a thread of its own; there are few of these.
fn serve(shared: &Arc<Shared>, client: TcpStream) {
    let more = |taken: usize| (taken < METRICS_CLIENTS_MAX).then_some(taken + 1);
    if shared.clients.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
        return;
    }
    let seat = Seat(Arc::clone(shared));
    let work = move || {
        // It is gone, or too slow: nothing is owed to it any more.
        let _ = converse(&seat.0, client);
    };
    if let Err(e) = std::thread::Builder::new().name("weft-scrape".into()).spawn(work) {
        tracing::warn!("a scrape of the metrics was refused: {e}");
    }
}

fn converse(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    let response = match receive(&mut client)? {
        Received::Whole(request) => shared.answer(&request),
        Received::TooLong => refusal("431 Request Header Fields Too Large"),
        Received::TooSlow => refusal("408 Request Timeout"),
        Received::Nothing => return Ok(()),
    };
    send(&mut client, &response)
}

enum Received {
    Whole(Vec<u8>),
    TooLong,
    TooSlow,
    Nothing,
}

/// Receives a request, without a body, within a bounded time altogether.
fn receive(client: &mut TcpStream) -> io::Result<Received> {
    let end = Instant::now() + Duration::from_secs(METRICS_REQUEST_S);
    let (mut request, mut piece) = (Vec::new(), [0; 2048]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Received::TooSlow);
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut piece) {
            Ok(0) => return Ok(Received::Nothing),
            Ok(n) => request.extend_from_slice(&piece[..n]),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(Received::TooSlow),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Received::Whole(request));
        }
        if request.len() > METRICS_REQUEST_BYTES_MAX {
            return Ok(Received::TooLong);
        }
    }
}

impl Shared {
    fn answer(&self, request: &[u8]) -> Response {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(request) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return refusal("431 Request Header Fields Too Large"),
            _ => return refusal("400 Bad Request"),
        }
        if !self.allows(parsed.headers) {
            return Response { fields: "WWW-Authenticate: Bearer realm=\"weft metrics\"\r\n", ..refusal("401 Unauthorized") };
        }
        let (method, path) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
        if path.split('?').next() != Some(PATH) {
            return refusal("404 Not Found");
        }
        if !matches!(method, "GET" | "HEAD") {
            return Response { fields: "Allow: GET, HEAD\r\n", ..refusal("405 Method Not Allowed") };
        }
        Response {
            status: "200 OK",
            fields: "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n",
            body: (self.scrape)(),
            head_only: method == "HEAD",
        }
    }

    /// Whether a request shows the token. The comparison takes the same time wherever the two differ.
    fn allows(&self, fields: &[httparse::Header]) -> bool {
        let Some(token) = &self.token else { return true };
        let shown = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("authorization"));
        let mut shown = shown.filter_map(|field| {
            let (scheme, rest) = field.value.split_at_checked("bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
        });
        shown.any(|shown| bool::from(shown.ct_eq(token)))
    }
}

fn refusal(status: &'static str) -> Response {
    Response { status, fields: "Content-Type: text/plain\r\n", body: format!("{status}\n"), head_only: false }
}

/// Sends a response within a bounded time altogether.
fn send(client: &mut TcpStream, response: &Response) -> io::Result<()> {
    let Response { status, fields, body, head_only } = response;
    let mut bytes = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    if !head_only {
        bytes.push_str(body);
    }
    let (end, mut bytes) = (Instant::now() + Duration::from_secs(METRICS_SEND_S), bytes.as_bytes());
    while !bytes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_write_timeout(Some(left))?;
        match client.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    client.shutdown(std::net::Shutdown::Write)?;
    // What the client still sends is read, so that it is not reset before it has the response; no longer than that, either.
    client.set_read_timeout(Some(Duration::from_secs(1)))?;
    let _ = client.take(METRICS_REQUEST_BYTES_MAX as u64).read_to_end(&mut Vec::new());
    Ok(())
}

#[cfg(test)]
mod tests;
