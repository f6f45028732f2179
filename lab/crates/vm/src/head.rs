//! Header of a script.
//!
//! A head is the comment lines at the top of a script; those of the form `# lab: key=value …` are
//! read. Lists are comma-separated, a key may come more than once, and paths are relative to the
//! script.

use std::{fs, path::Path, str::FromStr};

use anyhow::{Context, Result, bail};

use super::kernel::Series;

/// The head of a script.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Head {
    /// What it tells people: all other comments, in one line.
    pub(super) about: String,
    pub(super) files: Vec<String>,
    pub(super) packages: Vec<String>,
    pub(super) modules: Vec<String>,
    pub(super) kernel: Option<Series>,
    pub(super) mem_mib: Option<u64>,
    pub(super) smp: Option<u32>,
    pub(super) instructions: bool,
    pub(super) timeout_s: Option<u64>,
    pub(super) net: bool,
    /// The guest has a disk by vhost-user.
    pub(super) disk: bool,
    /// The case runs below systemd.
    pub(super) systemd: bool,
    /// It runs only when it is asked for, and with `cargo xtask long`.
    pub(super) long: bool,
}

impl Head {
    pub(super) fn read(script: &Path) -> Result<Self> {
        let text = fs::read_to_string(script)
            .with_context(|| format!("cannot read the script {}", script.display()))?;
        Self::parse(&text).with_context(|| format!("in the head of {}", script.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut head = Self::default();
        let comments = text.lines().take_while(|line| line.starts_with('#'));
        for line in comments.filter(|line| !line.starts_with("#!")) {
            let Some(items) = line.strip_prefix("# lab:") else {
                head.about.push_str(line.trim_start_matches('#'));
                continue;
            };
            for item in items.split_whitespace() {
                let (key, value) = item.split_once('=').unwrap_or((item, ""));
                head.set(key, value)?;
            }
        }
        head.about = head.about.trim().to_owned();
        Ok(head)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let list = || value.split(',').filter(|item| !item.is_empty()).map(str::to_owned);
        match key {
            "files" => self.files.extend(list()),
            "pkgs" => self.packages.extend(list()),
            "modules" => self.modules.extend(list()),
            "kernel" => self.kernel = Some(value.parse().map_err(anyhow::Error::msg)?),
            "mem" => self.mem_mib = Some(number(key, value)?),
            "smp" => self.smp = Some(number(key, value)?),
            "clock" if value == "instructions" => self.instructions = true,
            "timeout" => self.timeout_s = Some(number(key, value)?),
            "net" => self.net = value == "1",
            "disk" if value == "vhost-user" => self.disk = true,
            "init" if value == "systemd" => self.systemd = true,
            "long" => self.long = true,
            _ => bail!("unknown key `{key}`"),
        }
        Ok(())
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T> {
    value.parse().ok().with_context(|| format!("`{key}={value}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_head_up_to_the_first_other_line() {
        let head = Head::parse(
            "#!/bin/sh\n# What it shows,\n# and how.\n# lab: modules=a,b pkgs=fio timeout=60\n# lab: modules=c net=1 disk=vhost-user\n# lab: long init=systemd\n\n# lab: mem=9\n",
        );
        let expected = Head {
            about: "What it shows, and how.".into(),
            modules: vec!["a".into(), "b".into(), "c".into()],
            packages: vec!["fio".into()],
            timeout_s: Some(60),
            net: true,
            disk: true,
            systemd: true,
            long: true,
            ..Head::default()
        };
        assert_eq!(head.unwrap(), expected);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(Head::parse("# lab: module=a\n").is_err());
        assert!(Head::parse("# lab: mem=lots\n").is_err());
        assert!(Head::parse("# lab: kernel=2.4\n").is_err());
    }
}
