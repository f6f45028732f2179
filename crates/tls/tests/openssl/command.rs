//! The program `openssl`, its input and its output.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weft_testing::programs;
use weft_testing::wait::PATIENCE;

/// Returns whether the library or the program is missing here.
pub fn is_skipped() -> bool {
    weft_tls::available().map_err(weft_testing::skip).is_err() || !programs::have(&["openssl"])
}

/// A directory with a certificate that stands for itself and its key, and the names of both files.
pub fn certificate() -> Option<(TempDir, [String; 2])> {
    let directory = tempfile::tempdir().unwrap();
    let [cert, key] =
        ["cert", "key"].map(|name| format!("{}/{name}.pem", directory.path().display()));
    let made = programs::command("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-out",
            &cert,
            "-keyout",
            &key,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    made.is_ok_and(|status| status.success()).then_some((directory, [cert, key]))
}

/// A running program. It ends with this value.
pub struct Openssl {
    child: Child,
    input: ChildStdin,
    output: Arc<Mutex<String>>,
    /// They end with the program.
    readers: Vec<JoinHandle<()>>,
}

impl Openssl {
    /// Starts it with these arguments.
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = programs::command("openssl")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        let read = |mut stream: Box<dyn Read + Send>| {
            let output = Arc::clone(&output);
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut room) {
                    output.lock().unwrap().push_str(&String::from_utf8_lossy(&room[..n]));
                }
            })
        };
        let readers = streams.map(read).into();
        Self { input: child.stdin.take().unwrap(), child, output, readers }
    }

    /// Starts `s_server` for TLS 1.3, and returns its address.
    pub fn serve(options: &[&str]) -> (Self, SocketAddr) {
        // A port that was free a moment ago.
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (address, certificate) = (at.to_string(), ["-nocert"]);
        let certificate = if options.contains(&"-cert") { &certificate[..0] } else { &certificate };
        let mut server = Self::start(
            &[&["s_server", "-accept", &address, "-tls1_3"], certificate, options].concat(),
        );
        server.wait_for("ACCEPT");
        (server, at)
    }

    /// Sends a line. A line of a single letter may be a command of the program's.
    pub fn say(&mut self, line: &str) {
        // In one piece: the program looks at what one read gives.
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits until the program has printed this.
    pub fn wait_for(&mut self, text: &str) {
        self.wait_for_times(text, 1);
    }

    /// Waits until the program has printed this `times` times.
    pub fn wait_for_times(&mut self, text: &str, times: usize) {
        let output = Arc::clone(&self.output);
        let what = format!("openssl prints \"{text}\" {times} times");
        let end = Instant::now() + PATIENCE;
        loop {
            // Of a program that has ended all is read before the last look.
            let has_ended = self.has_ended();
            let printed = output.lock().unwrap().clone();
            if printed.matches(text).count() >= times {
                return;
            }
            assert!(Instant::now() < end && !has_ended, "{what}, but only: {printed}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns its output.
    pub fn printed(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    fn has_ended(&mut self) -> bool {
        let has_ended = self.child.try_wait().unwrap().is_some();
        if has_ended {
            self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        }
        has_ended
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A socket whose calls do not wait.
pub fn unblocked(socket: TcpStream) -> TcpStream {
    socket.set_nonblocking(true).unwrap();
    socket
}
