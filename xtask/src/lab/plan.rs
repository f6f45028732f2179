//! What one run needs: the command line's options on top of what the script's head says.
//!
//! A head is the comment lines at the top of a script; those of the form `# lab: key=value …` are
//! read. Lists are comma-separated, a key may come more than once, and paths are relative to the
//! script. The file name `weft` stands for this tree's program, built first.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::sh;

/// The file that stands for this tree's program.
const WEFT: &str = "weft";
const DEFAULT_MEM_MIB: u64 = 512;
const DEFAULT_SMP: u32 = 2;
const DEFAULT_TIMEOUT_S: u64 = 120;

/// What a run needs beyond what its script's head says.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Files and directories to put into /lab, programs with their shared libraries; `weft` is
    /// this tree's program, built first
    #[arg(long, num_args = 1.., value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Debian packages whose files the guest has
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub pkgs: Vec<String>,
    /// Kernel modules to load before the script starts
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub modules: Vec<String>,
    /// Environment of the script
    #[arg(long, value_name = "K=V", value_parser = key_value)]
    pub env: Vec<(String, String)>,
    /// Guest memory (512, more where the image is large)
    #[arg(long, value_name = "MiB")]
    pub mem: Option<u64>,
    /// Guest CPUs (2)
    #[arg(long, value_name = "N")]
    pub smp: Option<u32>,
    /// Give up after so many seconds, boot included (120)
    #[arg(long, value_name = "S")]
    pub timeout: Option<u64>,
    /// A network on which this machine's 127.0.0.1 is 10.0.2.2
    #[arg(long)]
    pub net: bool,
    /// A port of this machine's 127.0.0.1 that leads to a port of the guest; needs the network
    #[arg(long, value_name = "PORT:PORT", value_parser = ports)]
    pub forward: Option<(u16, u16)>,
    /// A directory of this machine that the guest has, writable, as /lab/share
    #[arg(long, value_name = "DIR")]
    pub share: Option<PathBuf>,
    /// Where to write the kernel's console
    #[arg(long, value_name = "FILE")]
    pub console: Option<PathBuf>,
    /// A weft program to use instead of building this tree's
    #[arg(long, value_name = "PATH")]
    pub weft: Option<PathBuf>,
}

/// Everything about one run, complete.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) script: Option<PathBuf>,
    pub(super) args: Vec<String>,
    /// Each with the name that it has below /lab.
    pub(super) files: Vec<(String, PathBuf)>,
    pub(super) packages: BTreeSet<String>,
    pub(super) modules: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) mem_mib: u64,
    pub(super) smp: u32,
    pub(super) timeout: Duration,
    pub(super) net: bool,
    pub(super) forward: Option<(u16, u16)>,
    pub(super) share: Option<PathBuf>,
    pub(super) console: Option<PathBuf>,
}

impl Plan {
    /// Merges a script's head and the options; builds `weft` if one of them asks for it.
    pub(super) fn new(script: Option<&Path>, options: &Options, args: &[String]) -> Result<Self> {
        let head = script.map_or_else(|| Ok(Head::default()), Head::read)?;
        let beside = script.and_then(Path::parent).unwrap_or(Path::new(""));
        let mut files = Vec::new();
        for file in head.files.iter().map(|file| in_dir(beside, file)).chain(options.files.clone()) {
            files.push(resolve(&file, options.weft.as_deref())?);
        }
        let net = options.net || head.net;
        let mut modules = head.modules;
        modules.extend(options.modules.iter().cloned());
        modules.extend(net.then(|| "virtio_net".to_owned()));
        if options.share.is_some() {
            modules.extend(["9p".to_owned(), "9pnet_virtio".to_owned()]);
        }
        Ok(Self {
            script: script.map(Path::to_owned),
            args: args.to_vec(),
            files,
            packages: head.packages.into_iter().chain(options.pkgs.iter().cloned()).collect(),
            modules,
            env: options.env.clone(),
            mem_mib: options.mem.or(head.mem_mib).unwrap_or(DEFAULT_MEM_MIB),
            smp: options.smp.or(head.smp).unwrap_or(DEFAULT_SMP),
            timeout: Duration::from_secs(options.timeout.or(head.timeout_s).unwrap_or(DEFAULT_TIMEOUT_S)),
            net,
            forward: options.forward,
            share: options.share.clone(),
            console: options.console.clone(),
        })
    }
}

/// The packages that a script's head names.
pub(super) fn packages_of(script: &Path) -> Result<BTreeSet<String>> {
    Ok(Head::read(script)?.packages.into_iter().collect())
}

/// This tree's program, built, if one of the scripts asks for it.
pub(super) fn weft_for(scripts: &[PathBuf]) -> Result<Option<PathBuf>> {
    for script in scripts {
        if Head::read(script)?.files.iter().any(|file| file == WEFT) {
            return weft_program(None).map(Some);
        }
    }
    Ok(None)
}

/// What a script says of itself.
#[derive(Debug, Default, PartialEq)]
struct Head {
    files: Vec<String>,
    packages: Vec<String>,
    modules: Vec<String>,
    mem_mib: Option<u64>,
    smp: Option<u32>,
    timeout_s: Option<u64>,
    net: bool,
}

impl Head {
    fn read(script: &Path) -> Result<Self> {
        let text = fs::read_to_string(script).with_context(|| format!("cannot read the script {}", script.display()))?;
        Self::parse(&text).with_context(|| format!("in the head of {}", script.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut head = Self::default();
        let comments = text.lines().take_while(|line| line.starts_with('#'));
        for line in comments.filter_map(|line| line.strip_prefix("# lab:")) {
            for item in line.split_whitespace() {
                let (key, value) = item.split_once('=').unwrap_or((item, ""));
                head.set(key, value)?;
            }
        }
        Ok(head)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let list = || value.split(',').filter(|item| !item.is_empty()).map(str::to_owned);
        match key {
            "files" => self.files.extend(list()),
            "pkgs" => self.packages.extend(list()),
            "modules" => self.modules.extend(list()),
            "mem" => self.mem_mib = Some(number(key, value)?),
            "smp" => self.smp = Some(number(key, value)?),
            "timeout" => self.timeout_s = Some(number(key, value)?),
            "net" => self.net = value == "1",
            _ => bail!("unknown key `{key}`"),
        }
        Ok(())
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T> {
    value.parse().ok().with_context(|| format!("`{key}={value}` is no number"))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let (here, there) = text.split_once(':').ok_or("write PORT:PORT")?;
    let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is no port"));
    Ok((port(here)?, port(there)?))
}

fn in_dir(dir: &Path, file: &str) -> PathBuf {
    if file == WEFT { PathBuf::from(file) } else { dir.join(file) }
}

/// A file's name in the guest and where it is here.
fn resolve(file: &Path, weft: Option<&Path>) -> Result<(String, PathBuf)> {
    if file == Path::new(WEFT) {
        return Ok((WEFT.to_owned(), without_debug_info(&weft_program(weft)?)?));
    }
    let name = file.file_name().with_context(|| format!("{} has no name", file.display()))?;
    if !file.exists() {
        bail!("there is no {}", file.display());
    }
    Ok((name.to_string_lossy().into_owned(), file.to_owned()))
}

fn weft_program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    sh::run(sh::cargo("build").args(["--quiet", "--release", "--package", "weft"]))?;
    Ok(sh::target_dir().join("release/weft"))
}

/// A copy without what only a debugger reads, where binutils are there to make one: the guest
/// holds its files in memory, twice while it boots.
fn without_debug_info(program: &Path) -> Result<PathBuf> {
    if !sh::have("strip") {
        return Ok(program.to_owned());
    }
    let dir = sh::target_dir().join("lab");
    fs::create_dir_all(&dir)?;
    let small = dir.join("weft");
    let partial = tempfile::NamedTempFile::new_in(&dir)?;
    sh::run(Command::new("strip").arg("-o").arg(partial.path()).arg(program))?;
    partial.persist(&small)?;
    Ok(small)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_head_up_to_the_first_other_line() {
        let head = Head::parse(
            "#!/bin/sh\n# What it shows.\n# lab: modules=a,b pkgs=fio timeout=60\n# lab: modules=c net=1\n\n# lab: mem=9\n",
        );
        let expected = Head {
            modules: vec!["a".into(), "b".into(), "c".into()],
            packages: vec!["fio".into()],
            timeout_s: Some(60),
            net: true,
            ..Head::default()
        };
        assert_eq!(head.unwrap(), expected);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(Head::parse("# lab: module=a\n").is_err());
        assert!(Head::parse("# lab: mem=lots\n").is_err());
    }

    #[test]
    fn options_add_to_the_head_and_replace_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("case.sh");
        fs::write(&script, "#!/bin/sh\n# lab: files=case.sh modules=a timeout=60 mem=2048\n").unwrap();
        let options = Options { modules: vec!["b".into()], timeout: Some(9), net: true, ..Options::default() };
        let plan = Plan::new(Some(&script), &options, &["x".into()]).unwrap();
        assert_eq!(plan.modules, ["a", "b", "virtio_net"]);
        assert_eq!(plan.files, [("case.sh".to_owned(), script.clone())]);
        assert_eq!((plan.timeout, plan.mem_mib, plan.smp), (Duration::from_secs(9), 2048, DEFAULT_SMP));

        let absent = Options { files: vec!["absent".into()], ..Options::default() };
        assert!(Plan::new(Some(&script), &absent, &[]).is_err());
    }
}
