//! A defect of weft: one of its threads panics.
//!
//! An event loop takes the connections and listening sockets with it that it has. The others would
//! go on, so the process would seem to be well, and nobody would start it again. Hosts connect
//! again to a new process, so the process ends.

use std::thread;

use weft_server::service::windows::is_service;

use crate::process::exit::tell;

/// The exit status, as Rust has it where the main thread panics.
pub const STATUS: i32 = 101;

/// Threads that serve one client of the control socket or of the metrics; nobody else needs them.
const OF_ONE_CLIENT: [&str; 2] = ["weft-client", "weft-scrape"];

/// Ends the process when one of weft's threads panics, after the panic was reported.
pub fn watch() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        match is_service() {
            // Nobody reads its standard error.
            true => tell(&info.to_string()),
            false => report(info),
        }
        if thread::current().name().is_some_and(is_needed) {
            std::process::exit(STATUS);
        }
    }));
}

/// Whether the process is of no use without the thread of this name.
fn is_needed(thread: &str) -> bool {
    thread.starts_with("weft-") && !OF_ONE_CLIENT.contains(&thread)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// The name of the thread that panics, in a process of its own.
    const VARIABLE: &str = "WEFT_TEST_PANICS";

    /// The exit status of a process in which a thread panics, and which goes on otherwise.
    fn status_after(name: &str) -> Option<i32> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::defect::tests::a_thread_panics"]).env(VARIABLE, name);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code()
    }

    /// Does nothing but in that process.
    #[test]
    fn a_thread_panics() {
        let Some(name) = std::env::var_os(VARIABLE) else { return };
        watch();
        let name = name.into_string().unwrap();
        assert!(
            thread::Builder::new().name(name).spawn(|| panic!("a defect")).unwrap().join().is_err()
        );
        std::process::exit(7);
    }

    #[test]
    fn the_process_ends_with_a_thread_that_it_needs() {
        for name in ["weft-loop-0", "weft-control", "weft-reservations", "weft-signals"] {
            assert_eq!(status_after(name), Some(STATUS), "{name}");
        }
        for name in ["weft-client", "weft-scrape", "other"] {
            assert_eq!(status_after(name), Some(7), "{name}");
        }
    }
}
