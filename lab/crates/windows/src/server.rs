//! A server for a trial.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// How long a server may take to say where it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(60);

/// How long a server may take to end when asked.
const END_LIMIT: Duration = Duration::from_secs(30);

/// A `weft serve` that runs as a process of its own and ends with this value.
pub(super) struct Server {
    child: Child,
    urls: Vec<String>,
}

impl Server {
    /// Serves `source` on free ports by the given protocols and waits until it says which.
    pub(super) fn serve(mut command: Command, source: &str, listen: &[&str]) -> Result<Self> {
        command.args(["serve", source]).args(listen.iter().flat_map(|url| ["--listen", url]));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let stdout = child.stdout.take().context("the server has no standard output")?;
        let (send, receive) = mpsc::channel();
        // The thread ends with the server's output.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                println!("server: {line}");
                if let Some(url) = line.trim().strip_prefix("listening on ") {
                    let _ = send.send(url.to_owned());
                }
            }
        });
        let mut server = Self { child, urls: Vec::new() };
        for _ in listen {
            let url = receive
                .recv_timeout(LISTEN_LIMIT)
                .context("the server never said where it listens")?;
            server.urls.push(url);
        }
        Ok(server)
    }

    /// Where it listens by the protocol that this is the beginning of.
    pub(super) fn url(&self, scheme: &str) -> Result<String> {
        let found = self.urls.iter().find(|url| url.starts_with(scheme));
        found.cloned().with_context(|| format!("the server does not listen on {scheme}"))
    }

    /// Asks the target to end and insists that it does.
    pub(super) fn stop(mut self) -> Result<()> {
        terminate(&mut self.child)?;
        let deadline = Instant::now() + END_LIMIT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= deadline {
                bail!("the target did not end within {} s of SIGTERM", END_LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the target has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
fn terminate(child: &mut Child) -> Result<()> {
    let id = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM)
        .context("cannot signal the target")
}

#[cfg(not(unix))]
fn terminate(child: &mut Child) -> Result<()> {
    child.kill().context("cannot end the target")
}
