//! iSCSI: tgt, and weft's export of a RAM disk, both driven by libiscsi's `iscsi-perf`.
//!
//! `iscsi-perf` reads at random, tells operations per second once a second and no latencies, and
//! goes on until it is interrupted.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use xtask::sh;

use super::{
    super::{
        point::Point,
        process::{self, Process},
        sample::{Cost, Sample},
        setting::Setting,
        statistics::Spread,
    },
    contender::Contestant,
    weft::Target,
};

/// Bytes of a logical block.
const BLOCK_BYTES: u32 = 512;

/// Least time until `iscsi-perf` has told something.
const FIRST_WORD: Duration = Duration::from_millis(1300);

/// How often tgtd is asked whether it is there.
const KNOCKS: u32 = 100;

/// A target with `iscsi-perf`.
struct Iscsi {
    name: &'static str,
    url: String,
    target: Process,
    /// tgt's own: what it stores blocks in, and how it is told to end.
    tgt: Option<Tgt>,
}

struct Tgt {
    file: PathBuf,
    control: String,
}

/// tgt.
pub fn foreign(setting: &Setting) -> Result<Box<dyn Contestant>> {
    ensure!(sh::have("tgtd") && sh::have("tgtadm"), "there is no tgtd");
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    // The number that tells several tgtd apart is at most five digits.
    let control = (std::process::id() % 30_000 + 2).to_string();
    let portal = format!("portal=127.0.0.1:{port}");
    let file = PathBuf::from(format!("/dev/shm/weft-race-{}.img", std::process::id()));
    std::fs::write(&file, vec![0x5a; setting.memory_bytes as usize])
        .with_context(|| format!("cannot write {}", file.display()))?;
    let mut tgtd = Setting::pinned(
        setting.target_cpu,
        "tgtd",
        &["--foreground", "--control-port", &control, "--iscsi", &portal],
    );
    let target = Process::start(tgtd.stderr(Stdio::null()))?;
    let url = format!("iscsi://127.0.0.1:{port}/{IQN}/1");
    let iscsi = Iscsi { name: "tgt", url, target, tgt: Some(Tgt { file, control }) };
    iscsi.set_up()?;
    iscsi.checked()
}

const IQN: &str = "iqn.2014-08.org.example:race";

/// weft's own export.
pub fn ours(setting: &Setting) -> Result<Box<dyn Contestant>> {
    let cpu = setting.target_cpu.to_string();
    let source = format!("ram:{}", setting.memory_bytes);
    let Target { process, url } = Target::with(
        setting,
        &source,
        "iscsi://127.0.0.1:0",
        &["--threads", "1", "--cpus_allowed", &cpu],
    )?;
    Iscsi { name: "weft-iscsi", url, target: process, tgt: None }.checked()
}

impl Iscsi {
    /// Makes one target with one logical unit in tgtd.
    fn set_up(&self) -> Result<()> {
        let Some(tgt) = &self.tgt else { return Ok(()) };
        let mut target =
            tgt.admin(&["--op", "new", "--mode", "target", "--tid", "1", "--targetname", IQN]);
        for _ in 0..KNOCKS {
            if target.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(40));
            target =
                tgt.admin(&["--op", "new", "--mode", "target", "--tid", "1", "--targetname", IQN]);
        }
        target?;
        let file = tgt.file.to_string_lossy();
        tgt.admin(&[
            "--op",
            "new",
            "--mode",
            "logicalunit",
            "--tid",
            "1",
            "--lun",
            "1",
            "--backing-store",
            &file,
        ])?;
        tgt.admin(&["--op", "bind", "--mode", "target", "--tid", "1", "--initiator-address", "ALL"])
    }

    fn checked(self) -> Result<Box<dyn Contestant>> {
        ensure!(sh::have("iscsi-perf"), "there is no iscsi-perf (libiscsi-bin)");
        Ok(Box::new(self))
    }
}

impl Tgt {
    fn admin(&self, args: &[&str]) -> Result<()> {
        process::output(
            Command::new("tgtadm")
                .args(["--control-port", &self.control, "--lld", "iscsi"])
                .args(args),
        )
        .map(drop)
    }
}

impl Drop for Iscsi {
    fn drop(&mut self) {
        if let Some(tgt) = &self.tgt {
            // tgtd is deaf to signals while it has targets. Whatever fails here, its process is
            // ended next.
            let _ = tgt.admin(&["--op", "delete", "--mode", "target", "--tid", "1", "--force"]);
            let _ = process::output(Command::new("tgtadm").args([
                "--control-port",
                &tgt.control,
                "--op",
                "delete",
                "--mode",
                "system",
            ]));
            let _ = std::fs::remove_file(&tgt.file);
        }
    }
}

impl Contestant for Iscsi {
    fn name(&self) -> &str {
        self.name
    }

    fn measure(&mut self, setting: &Setting, point: &Point) -> Result<Option<Sample>> {
        let able = point.rw == "randread" && point.connections == 1 && !point.digests;
        if !able || (setting.small && point.iodepth != 32) {
            return Ok(None);
        }
        let (depth, blocks) = (point.iodepth.to_string(), (point.bytes / BLOCK_BYTES).to_string());
        let args = ["-r", "-m", &depth, "-b", &blocks, &self.url];
        let time = (setting.ramp + setting.runtime).max(FIRST_WORD);
        let before = self.target.cpu()?;
        let said =
            interrupted(&mut Setting::pinned(setting.initiator_cpu, "iscsi-perf", &args), time)?;
        let after = self.target.cpu()?;
        let rates = said
            .split("iops current ")
            .skip(1)
            .filter_map(|rest| rest.split(' ').next()?.parse().ok());
        let iops = Spread::of(rates).context("iscsi-perf told no rate")?.median;
        ensure!(iops > 0.0, "iscsi-perf did nothing");
        let us =
            |at: usize| (after[at] - before[at]).as_secs_f64() * 1e6 / (iops * time.as_secs_f64());
        let target = Some(Cost { user_us: us(0), system_us: us(1), ..Cost::default() });
        Ok(Some(Sample { iops, target, ..Sample::default() }))
    }
}

/// Runs a program for so long, then interrupts it; what it wrote.
fn interrupted(command: &mut Command, time: Duration) -> Result<String> {
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let pid = child.id().to_string();
    thread::spawn(move || {
        thread::sleep(time);
        let _ = Command::new("kill").args(["-INT", &pid]).status();
    });
    Ok(String::from_utf8_lossy(&child.wait_with_output()?.stdout).into_owned())
}
