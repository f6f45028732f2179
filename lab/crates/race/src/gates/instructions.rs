//! Instructions of the engines, of counting, of devices that consist of others and of encrypted
//! streams for each command, counted by callgrind, against a committed baseline.
//!
//! The count depends on the compiler and on nothing else: engines touch no payload, and what the
//! processor can do is hidden from the C library. With another compiler than the baseline's the
//! numbers are printed and not judged, except in CI, where it is a failure: renew the baseline with
//! `cargo xtask race --renew-baseline` and say in the commit why it changed.
//!
//! Encrypted streams include the cipher, which is chosen by what the processor can do, as valgrind
//! shows it. They are judged where that is what the baseline's processor can, and printed elsewhere.

use std::{collections::BTreeMap, env, fs, path::Path, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use xtask::{
    built,
    sh::{self, Missing},
};

use super::check::Check;

/// Instructions that are tolerated beyond the baseline.
const TOLERANCE: f64 = 0.03;

/// A test that is counted: its name in the baseline, its name in its program, and the function in
/// which it is counted.
type Counted = (&'static str, &'static str, &'static str);

/// A program of such tests: its package and its name.
type Program = (&'static str, &'static str, &'static [Counted]);

const ENGINES: Program = (
    "weft-proto",
    "engine_instructions",
    &[
        ("host_read", "host_read", "measured_host"),
        ("host_write", "host_write", "measured_host"),
        ("target_read", "target_read", "measured_target"),
        ("target_write", "target_write", "measured_target"),
    ],
);

const STREAMS: Program = (
    "weft-proto",
    "stream_instructions",
    &[
        ("iscsi_initiator_read", "iscsi::initiator_read", "measured_host"),
        ("iscsi_initiator_write", "iscsi::initiator_write", "measured_host"),
        ("iscsi_target_read", "iscsi::target_read", "measured_target"),
        ("iscsi_target_write", "iscsi::target_write", "measured_target"),
        ("nbd_client_read", "nbd::client_read", "measured_host"),
        ("nbd_client_write", "nbd::client_write", "measured_host"),
        ("nbd_server_read", "nbd::server_read", "measured_target"),
        ("nbd_server_write", "nbd::server_write", "measured_target"),
    ],
);

const LAYERS: Program = (
    "weft-endpoint",
    "instructions",
    &[
        ("counting", "counting", "measured_counting"),
        ("mirror_read", "composites::mirror_read", "measured_composite"),
        ("mirror_write", "composites::mirror_write", "measured_composite"),
        ("stripe_read", "composites::stripe_read", "measured_composite"),
        ("stripe_write", "composites::stripe_write", "measured_composite"),
    ],
);

/// A message of the name's length, in each direction.
const TLS: Program = (
    "weft-tls",
    "costs",
    &[
        ("tls_send_4k", "send_4k", "measured_send"),
        ("tls_receive_4k", "receive_4k", "measured_receive"),
        ("tls_send_64k", "send_64k", "measured_send"),
        ("tls_receive_64k", "receive_64k", "measured_receive"),
    ],
);

const PROGRAMS: [Program; 4] = [ENGINES, STREAMS, LAYERS, TLS];

/// Returns whether the processor has what the baseline's cipher was chosen by.
fn has_ciphers_processor() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("aes") && has!("pclmulqdq") && has!("movbe") && has!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Compares all engines with the baseline.
pub fn check() -> Result<Vec<Check>> {
    let baseline = baseline()?;
    let counted = count()?;
    let judged = baseline["rustc"] == rustc()?.as_str();
    let is_tls = |name: &str| TLS.2.iter().any(|(of_tls, ..)| *of_tls == name);
    let tls_judged = judged && has_ciphers_processor();
    let mut checks = Vec::new();
    for (engine, found) in counted {
        let base = baseline["instructions"][engine]
            .as_f64()
            .with_context(|| format!("the baseline lacks {engine}"))?;
        let judged = if is_tls(engine) { tls_judged } else { judged };
        let each = if engine.ends_with("64k") { "64 KiB message" } else { "4 KiB command" };
        let what = format!("{engine}, for each {each}");
        let found_text = format!(
            "{found:.1}, {:+.1} % to the baseline of {base:.1}",
            (found / base - 1.0) * 100.0
        );
        checks.push(Check {
            what,
            found: found_text,
            good: !judged || found <= base * (1.0 + TOLERANCE),
        });
    }
    if !judged {
        let (base, ours) = (&baseline["rustc"], rustc()?);
        let good = env::var_os("CI").is_none_or(|ci| ci.is_empty());
        let found = format!(
            "the baseline is from {base}, this is {ours}: run `cargo xtask race --renew-baseline` on the commit before"
        );
        checks.push(Check { what: "the same compiler".into(), found, good });
    }
    Ok(checks)
}

/// Writes the baseline again.
pub fn renew() -> Result<()> {
    let counted: serde_json::Map<String, Value> = count()?
        .into_iter()
        .map(|(engine, found)| (engine.to_owned(), json!((found * 10.0).round() / 10.0)))
        .collect();
    let baseline = json!({ "rustc": rustc()?, "instructions": counted });
    fs::write(path(), format!("{baseline:#}\n"))?;
    println!("{baseline:#}");
    Ok(())
}

fn path() -> PathBuf {
    sh::root().join("lab/crates/race/instructions.json")
}

fn baseline() -> Result<Value> {
    let text =
        fs::read_to_string(path()).context("cannot read lab/crates/race/instructions.json")?;
    serde_json::from_str(&text).context("lab/crates/race/instructions.json")
}

/// The compiler's version.
pub fn rustc() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Ok(sh::output(Command::new(rustc).arg("--version"))?.trim().to_owned())
}

/// Instructions for each command, by engine.
fn count() -> Result<Vec<(&'static str, f64)>> {
    if !sh::have("valgrind") {
        return Err(Missing("there is no valgrind".into()).into());
    }
    let (mut counted, programs) = (Vec::new(), build()?);
    for (_, name, tests) in PROGRAMS {
        let program =
            programs.get(name).with_context(|| format!("cargo did not say where {name} is"))?;
        for &(counts, test, function) in tests {
            counted.extend(count_one(program, test, function)?.map(|found| (counts, found)));
        }
    }
    Ok(counted)
}

/// Builds the programs as they are released, all at once, so that what they share is built once.
fn build() -> Result<BTreeMap<String, PathBuf>> {
    let mut cargo = sh::cargo("test");
    // An incremental build is another division of the code, and counts some per cent otherwise.
    cargo.env("CARGO_INCREMENTAL", "0").args(["--release", "--locked", "--no-run", "--quiet"]);
    for (package, name, _) in PROGRAMS {
        cargo.args(["--package", package, "--test", name]);
    }
    Ok(built::executables(&mut cargo)?.into_iter().collect())
}

/// What one test counts; nothing where the machine lacks what it needs.
fn count_one(program: &Path, engine: &str, function: &str) -> Result<Option<f64>> {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            &format!("--toggle-collect=*{function}*"),
        ])
        .arg(program)
        .args(["--exact", engine, "--test-threads=1", "--nocapture"])
        // Functions of the C library that are chosen by what the processor can do.
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM")
        .output()
        .context("cannot start valgrind")?;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{engine} failed under callgrind: {err}");
    if out.contains("skipped: ") {
        return Ok(None);
    }
    let number = |text: &str, mark: &str| -> Option<f64> {
        text.split(mark).nth(1)?.split_whitespace().next()?.parse().ok()
    };
    let collected = number(&err, "Collected :").context("callgrind told no count")?;
    let commands = number(&out, "commands ").context("the program told no count of commands")?;
    ensure!(collected > 0.0, "callgrind saw nothing of {function}");
    Ok(Some(collected / commands))
}
