//! The HTTP server of the metrics: a few resources, one request for each connection. A client that
//! sends too much, or takes too long, loses its connection. httparse parses the requests.

use super::page::{METRICS, Page, PageRequest, Pages};
use crate::limits::{
    METRICS_CLIENTS_MAX, METRICS_REQUEST_BYTES_MAX, METRICS_REQUEST_S, METRICS_SEND_S,
};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use weft_base::lock::Lock;
use weft_block::Error;
use weft_endpoint::refusals::Refusals;
use zeroize::Zeroizing;

/// Header fields of a request at most.
const FIELDS_MAX: usize = 64;

/// A server of metrics. Dropping it closes it.
pub struct MetricsServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// What all scrapes have in common.
struct Scrapes {
    token: Option<Zeroizing<Vec<u8>>>,
    pages: Pages,
    clients: AtomicUsize,
    /// The clients that have not sent their request, the oldest first: they make room for others.
    silent: Lock<VecDeque<(u64, TcpStream)>>,
    refusals: Refusals,
}

/// A status, and what is sent with it.
struct Response {
    page: Page,
    /// Header fields beside those of every response.
    fields: &'static str,
    /// The body's length is told, and the body is not sent.
    head_only: bool,
}

impl MetricsServer {
    /// Listens. `pages` gives what is at a path, if anything is.
    ///
    /// # Errors
    /// The error of listening.
    pub fn start(
        at: SocketAddr,
        token: Option<Zeroizing<Vec<u8>>>,
        pages: Pages,
    ) -> Result<Self, Error> {
        let failed = |e| cannot(at, e);
        let listener = TcpListener::bind(at).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let scrapes = Arc::new(Scrapes {
            token,
            pages,
            clients: AtomicUsize::default(),
            silent: Lock::default(),
            refusals: Refusals::new(),
        });
        let stop = Arc::clone(&stopping);
        let accept = move || {
            let mut ids = 0..;
            while !stop.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((client, _)) if !stop.load(Ordering::Acquire) => {
                        serve(&scrapes, client, ids.next().unwrap_or_default())
                    }
                    Ok(_) => {}
                    // No descriptors, mostly: to try again at once would not help.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        let accepting = std::thread::Builder::new().name("weft-metrics".into()).spawn(accept);
        Ok(Self { address, stopping, accepting: Some(accepting.map_err(failed)?) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the metrics.
    pub fn url(&self) -> String {
        let mut address = self.address;
        match address.ip() {
            // Every address of this machine is meant, and this is one.
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("http://{address}{METRICS}")
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts, so that it closes the socket.
        if TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

/// Why listening failed.
pub fn cannot(at: SocketAddr, e: io::Error) -> Error {
    Error::io(
        format!("cannot listen at {at} for metrics: {e}; choose another address with --metrics"),
        e,
    )
}

/// The place of a client.
struct ClientPlace(Arc<Scrapes>);

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers a client on a thread of its own; there are few of these. Where all are taken, the client
/// that has been silent for longest goes: nobody who only connects keeps others out.
fn serve(scrapes: &Arc<Scrapes>, client: TcpStream, id: u64) {
    if scrapes.clients.load(Ordering::Acquire) >= METRICS_CLIENTS_MAX {
        match scrapes.lock_silent().pop_front() {
            // Its thread ends at once, and frees its place then.
            Some((_, oldest)) => {
                scrapes.turn_away(&oldest, "was disconnected before it sent a request")
            }
            None => return scrapes.turn_away(&client, "was refused"),
        }
    }
    let more = |taken: usize| (taken < 2 * METRICS_CLIENTS_MAX).then_some(taken + 1);
    if scrapes.clients.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
        return scrapes.turn_away(&client, "was refused");
    }
    let place = ClientPlace(Arc::clone(scrapes));
    let Ok(kept) = client.try_clone() else { return scrapes.turn_away(&client, "was refused") };
    scrapes.lock_silent().push_back((id, kept));
    let work = move || {
        // It is gone, or too slow: nothing is owed to it any more.
        let _ = converse(&place.0, client, id);
    };
    if let Err(e) = std::thread::Builder::new().name("weft-scrape".into()).spawn(work) {
        scrapes.speak(id);
        scrapes.refusals.log_now(|| format!("a scrape of the metrics was refused: {e}"));
    }
}

fn converse(scrapes: &Scrapes, mut client: TcpStream, id: u64) -> io::Result<()> {
    let received = receive(&mut client);
    scrapes.speak(id);
    let response = match received? {
        Received::Whole(request) => scrapes.answer(&request),
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
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(Received::TooSlow);
            }
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

impl Scrapes {
    fn lock_silent(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.silent.lock()
    }

    /// A client makes no room for others any more.
    fn speak(&self, id: u64) {
        self.lock_silent().retain(|(of, _)| *of != id);
    }

    /// Ends the connection of a client for which there is no place. The few bytes fit into the
    /// socket's buffer: this does not wait.
    fn turn_away(&self, mut client: &TcpStream, what: &str) {
        let _ = client.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        let _ = client.shutdown(std::net::Shutdown::Both);
        self.refusals.log_now(|| {
            let peer = client
                .peer_addr()
                .map_or_else(|_| "that has gone".to_owned(), |peer| peer.to_string());
            format!(
                "a client of the metrics, {peer}, {what}: there are {METRICS_CLIENTS_MAX} at a time"
            )
        });
    }

    fn answer(&self, request: &[u8]) -> Response {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(request) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => {
                return refusal("431 Request Header Fields Too Large");
            }
            _ => return refusal("400 Bad Request"),
        }
        if !self.allows(parsed.headers) {
            return Response {
                fields: "WWW-Authenticate: Bearer realm=\"weft metrics\"\r\n",
                ..refusal("401 Unauthorized")
            };
        }
        let (method, path) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
        let path = path.split('?').next().unwrap_or_default();
        if !super::page::PATHS.contains(&path) {
            return refusal("404 Not Found");
        }
        if !matches!(method, "GET" | "HEAD") {
            return Response {
                fields: "Allow: GET, HEAD\r\n",
                ..refusal("405 Method Not Allowed")
            };
        }
        let wanted = PageRequest { path, plain: wants_plain(parsed.headers) };
        let Some(page) = (self.pages)(wanted) else { return refusal("503 Service Unavailable") };
        Response { page, fields: "", head_only: method == "HEAD" }
    }

    /// Whether a request shows the token. The comparison takes the same time wherever the two
    /// differ.
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

/// Whether a client asks for plain text, and not for OpenMetrics. One that takes anything gets
/// OpenMetrics.
fn wants_plain(fields: &[httparse::Header]) -> bool {
    let accepted = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("accept"));
    let accepted: Vec<String> =
        accepted.map(|it| String::from_utf8_lossy(it.value).to_ascii_lowercase()).collect();
    let has = |kind: &str| accepted.iter().any(|it| it.contains(kind));
    has("text/plain") && !has("application/openmetrics-text")
}

fn refusal(status: &'static str) -> Response {
    let page = Page { status, media_type: "text/plain", body: format!("{status}\n") };
    Response { page, fields: "", head_only: false }
}

/// Sends a response within a bounded time altogether.
fn send(client: &mut TcpStream, response: &Response) -> io::Result<()> {
    let Response { page: Page { status, media_type, body }, fields, head_only } = response;
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
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
    // What the client still sends is read, so that it is not reset before it has the response; no
    // longer than that, either.
    client.set_read_timeout(Some(Duration::from_secs(1)))?;
    let _ = client.take(METRICS_REQUEST_BYTES_MAX as u64).read_to_end(&mut Vec::new());
    Ok(())
}

#[cfg(test)]
mod tests;
