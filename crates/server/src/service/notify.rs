//! Tells systemd about the process (sd_notify(3)), if it has asked for that, or the service manager
//! of Windows. On other systems nothing happens.

use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};
use weft_io::RemoteLoop;

/// The server listens. `took_over`: it replaces another process of the same service.
pub fn ready(took_over: bool) {
    system::ready(took_over);
}

/// The server ends.
pub fn stopping() {
    system::stopping();
}

/// Tells systemd that the process is alive while all of its loops answer, if systemd watches it
/// (WatchdogSec=). Dropping it ends that.
pub struct SystemdWatchdog {
    _watched: Option<Sender<()>>,
}

/// Begins to tell systemd that the process is alive.
pub fn watch(loops: &[RemoteLoop]) -> SystemdWatchdog {
    let loops = loops.to_vec();
    watch_that(move |limit| all_answer(&loops, limit))
}

/// The same, while something is true; that may take the time that is given.
pub fn watch_that(is_alive: impl Fn(Duration) -> bool + Send + 'static) -> SystemdWatchdog {
    SystemdWatchdog { _watched: system::watch(is_alive) }
}

fn all_answer(loops: &[RemoteLoop], limit: Duration) -> bool {
    let (give, take) = mpsc::channel();
    for each in loops {
        let give = give.clone();
        each.post(move |_| _ = give.send(()));
    }
    let end = Instant::now() + limit;
    loops.iter().all(|_| take.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok())
}

#[cfg(target_os = "linux")]
mod system {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::sync::mpsc::{self, RecvTimeoutError, Sender};
    use std::time::Duration;

    fn tell(what: &str) {
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
        let sent = || {
            // A name that begins with @ is no file.
            let address = match socket.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name)?,
                None => SocketAddr::from_pathname(&socket)?,
            };
            let from = UnixDatagram::unbound()?;
            // A service manager that does not read delays nothing for long.
            from.set_write_timeout(Some(Duration::from_secs(1)))?;
            from.send_to_addr(what.as_bytes(), &address)
        };
        if let Err(e) = sent() {
            tracing::warn!("cannot notify the service manager: {e}");
        }
    }

    pub fn ready(took_over: bool) {
        let own =
            if took_over { format!("MAINPID={}\n", std::process::id()) } else { String::new() };
        tell(&format!("{own}READY=1\n"));
    }

    pub fn stopping() {
        tell("STOPPING=1\n");
    }

    /// How long systemd waits for the process to say that it is alive, if it watches it.
    fn watched_time() -> Option<Duration> {
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_other =
            number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
        if is_other { None } else { number("WATCHDOG_USEC").map(Duration::from_micros) }
    }

    /// The thread ends with what is returned.
    pub fn watch(is_alive: impl Fn(Duration) -> bool + Send + 'static) -> Option<Sender<()>> {
        let pause = watched_time()? / 3;
        let (watched, ended) = mpsc::channel();
        let watch = move || {
            loop {
                if is_alive(pause) {
                    tell("WATCHDOG=1\n");
                }
                if ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        if let Err(e) = std::thread::Builder::new().name("weft-watchdog".into()).spawn(watch) {
            tracing::error!("cannot notify the service manager that the process is alive: {e}");
        }
        Some(watched)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::sync::mpsc::Sender;
    use std::time::Duration;

    pub fn ready(_: bool) {
        super::super::windows::ready();
    }

    pub fn stopping() {
        super::super::windows::stopping();
    }

    pub fn watch(_: impl Fn(Duration) -> bool + Send + 'static) -> Option<Sender<()>> {
        None
    }
}
