//! Any other peer, by a command line: `--peer 'NAME=COMMAND'`.
//!
//! The command is run by `sh -c` once for each measurement, with RW, RWMIXREAD, BS (bytes),
//! IODEPTH, NUMJOBS, SIZE (bytes), RUNTIME and RAMP_TIME (seconds), TARGET_CPU and INITIATOR_CPU in
//! its environment, and prints fio's JSON, or the operations per second as a number in its last
//! line. Exit status 77 says that it cannot do this point.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use xtask::sh;

use super::{
    super::{point::Point, sample::Sample, setting::Setting},
    contender::Contestant,
};

/// A command.
pub struct Custom {
    name: String,
    command: String,
}

impl Custom {
    /// From `NAME=COMMAND`.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, command) = text
            .split_once('=')
            .with_context(|| format!("--peer \"{text}\": write NAME=COMMAND"))?;
        ensure!(
            !name.is_empty() && !command.trim().is_empty(),
            "--peer \"{text}\": write NAME=COMMAND"
        );
        Ok(Self { name: name.to_owned(), command: command.to_owned() })
    }
}

/// What such a command printed.
fn read(text: &str) -> Result<Sample> {
    if let Some(json) = text.find('{').map(|at| &text[at..]) {
        return Sample::of_fio(&serde_json::from_str(json)?);
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let iops =
        last.trim().parse().with_context(|| format!("neither fio's JSON nor a number: {last}"))?;
    Ok(Sample { iops, ..Sample::default() })
}

impl Contestant for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn measure(&mut self, setting: &Setting, point: &Point) -> Result<Option<Sample>> {
        if point.digests {
            return Ok(None);
        }
        let output = Command::new("sh")
            .args(["-c", &self.command])
            .env("RW", point.rw)
            .env("RWMIXREAD", point.rwmixread.to_string())
            .env("BS", point.bytes.to_string())
            .env("IODEPTH", point.iodepth.to_string())
            .env("NUMJOBS", point.connections.to_string())
            .env("SIZE", setting.memory_bytes.to_string())
            .env("RUNTIME", setting.runtime.as_secs_f64().to_string())
            .env("RAMP_TIME", setting.ramp.as_secs_f64().to_string())
            .env("TARGET_CPU", setting.target_cpu.to_string())
            .env("INITIATOR_CPU", setting.initiator_cpu.to_string())
            .stdin(Stdio::null())
            .output()?;
        if output.status.code() == Some(sh::SKIPPED.into()) {
            return Ok(None);
        }
        ensure!(
            output.status.success(),
            "{} ended with {}: {}",
            self.name,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        read(&String::from_utf8_lossy(&output.stdout)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_json_are_read() {
        assert_eq!(read("warming up\n12345.5\n\n").unwrap().iops, 12345.5);
        let json = "note: …\n{\"jobs\": [{\"error\": 0, \"write\": {\"iops\": 7.0}}]}";
        assert_eq!(read(json).unwrap().iops, 7.0);
        assert!(read("no idea").is_err());
        assert!(Custom::parse("spdk").is_err());
        assert_eq!(Custom::parse("a=b --c=d").unwrap().command, "b --c=d");
    }
}
