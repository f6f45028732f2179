//! A server as a service, under Wine's service manager: it is installed, serves a Linux host, is
//! stopped in order, is killed, and is removed.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use lab_windows::{cache::Cache, wine};
use serde_json::Value;

use super::{server::Server, verified};

/// What is served, and its size.
const NQN: &str = "nqn.2026-01.com.example:service";
const SOURCE: &str = "ram:64MiB";

/// How long the service manager has to start another process: it is told to wait a second.
const NOTICE_LIMIT: Duration = Duration::from_secs(5);

/// Exit statuses of `weft`, by what they say.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const IN_USE: i32 = 5;

/// A service of this trial, which is removed with this value.
struct Service<'a> {
    name: String,
    weft: &'a dyn Fn() -> Command,
}

/// What a command did.
struct Said {
    status: i32,
    out: String,
    error: String,
}

/// Tries the life of a service.
pub(super) fn run(
    weft: &dyn Fn() -> Command,
    linux: &dyn Fn() -> Command,
    cache: &Cache,
    scratch: &Path,
) -> Result<()> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let directory = scratch.join("service");
    fs::create_dir_all(&directory)?;
    let url = format!("nvme+tcp://127.0.0.1:{port}/{NQN}");
    let service = Service { name: format!("weft-trial-{}", std::process::id()), weft };
    // Wine ends its services soon after the last program that is none, and none of the commands
    // below stays.
    let awake = Server::serve(weft(), "ram:1MiB", &["nvme+tcp://127.0.0.1:0"])?;
    service.installs(&directory, port)?;
    service.is_told_from_others()?;

    service.does("start")?;
    verified::io(linux(), &url)?;
    service.is_managed(&directory)?;
    service.does("start").context("one that runs")?;
    service.does("stop")?;
    service.is_stopped(Some(0))?;
    ensure!(!answers(port), "the port is open after the end of the service");
    service.does("stop").context("one that does not run")?;

    service.does("start")?;
    let first = service.pid()?;
    kill(cache, first)?;
    if service.comes_back(first)? {
        println!("the service manager has started the killed service again");
    } else {
        println!("this service manager does not start a killed service again");
        service.does("start").context("after it was killed")?;
    }
    verified::io(linux(), &url)?;
    service.does("remove")?;
    service.fails(&["status"], NOT_FOUND, "there is no service")?;
    ensure!(!answers(port), "the port is open after the service was removed");
    awake.stop()
}

impl Service<'_> {
    /// Installs it, and sees what is refused.
    fn installs(&self, directory: &Path, port: u16) -> Result<()> {
        let missing = directory.join("missing.toml");
        self.fails(&["install", "--config", text(&missing)?], NOT_FOUND, "missing.toml")?;
        let config = directory.join("service.toml");
        fs::write(
            &config,
            format!(
                "listen = [\"nvme+tcp://127.0.0.1:{port}\"]\n[[subsystem]]\nnqn = \"{NQN}\"\n[[subsystem.namespace]]\nnsid = 1\nsource = \"{SOURCE}\"\n"
            ),
        )?;
        let control = control(directory);
        let install = [
            ["install", "--config", text(&config)?],
            ["--start=demand", "--control", text(&control)?],
        ]
        .concat();
        let said = self.said(&install)?;
        ensure!(said.status == 0, "install ended with {}: {}", said.status, said.error);
        let account = format!("NT SERVICE\\{}", self.name);
        ensure!(said.out.contains(&account), "the account is not told: {}", said.out);
        print!("{}", said.error);
        self.fails(&install, IN_USE, "is already installed")
    }

    /// Services of others are left alone, and nothing but the service manager starts one.
    fn is_told_from_others(&self) -> Result<()> {
        let other = Self { name: "RpcSs".into(), weft: self.weft };
        let outcome = other.fails(&["stop"], USAGE, "is not one of weft's");
        // It is not to be removed.
        std::mem::forget(other);
        outcome?;
        let mut command = (self.weft)();
        command.args(["service", "run", "--name", &self.name, "serve", SOURCE]);
        let said = ended(&mut command)?;
        ensure!(
            said.status == USAGE && said.error.contains("weft service start"),
            "`service run` without the service manager ended with {}: {}",
            said.status,
            said.error
        );
        Ok(())
    }

    /// Whoever knows where its control socket is manages it.
    fn is_managed(&self, directory: &Path) -> Result<()> {
        let mut command = (self.weft)();
        command.args(["status", "--control"]).arg(control(directory));
        let said = ended(&mut command)?;
        ensure!(said.out.contains(SOURCE), "weft status does not show the source: {}", said.error);
        Ok(())
    }

    fn does(&self, what: &str) -> Result<()> {
        let said = self.said(&[what])?;
        ensure!(said.status == 0, "{what} ended with {}: {}", said.status, said.error);
        print!("{}", said.out);
        Ok(())
    }

    fn fails(&self, args: &[&str], status: i32, part: &str) -> Result<()> {
        let said = self.said(args)?;
        ensure!(
            said.status == status && said.error.contains(part),
            "{} ended with {} and not {status}, or said nothing of {part:?}: {}",
            args[0],
            said.status,
            said.error
        );
        ensure!(said.error.trim().lines().count() == 1, "not one sentence: {}", said.error);
        Ok(())
    }

    fn said(&self, args: &[&str]) -> Result<Said> {
        let mut command = (self.weft)();
        command.arg("service").args(args).args(["--name", &self.name]);
        ended(&mut command)
    }

    fn shown(&self) -> Result<Value> {
        let said = self.said(&["status", "--json"])?;
        ensure!(said.status == 0, "status ended with {}: {}", said.status, said.error);
        serde_json::from_str(&said.out).context("the status is not JSON")
    }

    fn is_stopped(&self, exit_status: Option<u64>) -> Result<()> {
        let shown = self.shown()?;
        ensure!(
            shown["state"] == "stopped" && shown["exit_status"].as_u64() == exit_status,
            "the service is not stopped with {exit_status:?}: {shown}"
        );
        Ok(())
    }

    fn pid(&self) -> Result<u64> {
        let shown = self.shown()?;
        shown["pid"].as_u64().with_context(|| format!("the service has no process: {shown}"))
    }

    /// Whether the manager starts another process instead of one that was killed.
    fn comes_back(&self, killed: u64) -> Result<bool> {
        let deadline = Instant::now() + NOTICE_LIMIT;
        while Instant::now() < deadline {
            let shown = self.shown()?;
            if shown["state"] == "running" && shown["pid"].as_u64() != Some(killed) {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(500));
        }
        Ok(false)
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        // As a rule it is removed already.
        let _ = self.said(&["remove"]);
    }
}

fn control(directory: &Path) -> PathBuf {
    directory.join("service.control")
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

fn ended(command: &mut Command) -> Result<Said> {
    let output = command.stdin(Stdio::null()).output().context("cannot start weft")?;
    Ok(Said {
        status: output.status.code().context("weft was ended by a signal")?,
        out: String::from_utf8(output.stdout)?,
        error: String::from_utf8(output.stderr)?,
    })
}

fn answers(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Kills a process of Wine, which has numbers of its own for them.
fn kill(cache: &Cache, pid: u64) -> Result<()> {
    let mut command = wine::program(cache, Path::new("taskkill"));
    let said = ended(command.args(["/F", "/PID", &pid.to_string()]))?;
    ensure!(said.status == 0, "taskkill ended with {}: {}", said.status, said.error);
    Ok(())
}
