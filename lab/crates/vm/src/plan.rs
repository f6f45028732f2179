//! Needs of a machine: the command line's options on top of the headers of its scripts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::{
    files::{WEFT, in_dir, resolve, weft_program},
    kernel::Series,
};

const DEFAULT_MEM_MIB: u64 = 512;

const DEFAULT_SMP: u32 = 2;

const DEFAULT_TIMEOUT_S: u64 = 120;

/// Needs of a run beyond those in its script's head.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Files and directories to put into /lab, programs with their shared libraries; `weft` is
    /// this tree's program, built first; a C file is compiled
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
    /// The guest's kernel: stable (Linux 6.12) or backports (the newest that Debian has)
    #[arg(long, value_name = "SERIES")]
    pub kernel: Option<Series>,
    /// Guest memory (512, more where the image is large)
    #[arg(long, value_name = "MiB")]
    pub mem: Option<u64>,
    /// Guest CPUs (2)
    #[arg(long, value_name = "N")]
    pub smp: Option<u32>,
    /// One CPU, whose clock advances by 1 ns with each instruction: times are counts of
    /// instructions
    #[arg(long, conflicts_with = "smp")]
    pub instructions: bool,
    /// Give up after S seconds, boot included (120)
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
    /// File for the kernel's console
    #[arg(long, value_name = "FILE")]
    pub console: Option<PathBuf>,
    /// A weft program to use instead of building this tree's
    #[arg(long, value_name = "PATH")]
    pub weft: Option<PathBuf>,
}

/// A script and what it alone needs.
#[derive(Debug)]
pub(super) struct Case {
    /// Its file name without `.sh`.
    pub(super) name: String,
    pub(super) script: PathBuf,
    pub(super) args: Vec<String>,
    /// Loaded before it starts.
    pub(super) modules: Vec<String>,
    pub(super) timeout: Duration,
}

impl Case {
    fn new(script: &Path, head: &Head, options: &Options, args: &[String]) -> Self {
        Self {
            name: name_of(script),
            script: script.to_owned(),
            args: args.to_vec(),
            modules: head.modules.clone(),
            timeout: Duration::from_secs(
                options.timeout.or(head.timeout_s).unwrap_or(DEFAULT_TIMEOUT_S),
            ),
        }
    }
}

/// Everything about a machine and what it is to run, complete.
#[derive(Debug)]
pub(super) struct Plan {
    /// None for a shell.
    pub(super) cases: Vec<Case>,
    /// Each with the name that it has below /lab.
    pub(super) files: Vec<(String, PathBuf)>,
    pub(super) packages: BTreeSet<String>,
    /// Loaded before the first case.
    pub(super) modules: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) kernel: Series,
    pub(super) mem_mib: u64,
    pub(super) smp: u32,
    /// The clock advances by 1 ns with each instruction of the only CPU.
    pub(super) instructions: bool,
    pub(super) net: bool,
    /// The guest has a disk by vhost-user.
    pub(super) disk: bool,
    /// The cases run below systemd.
    pub(super) systemd: bool,
    pub(super) forward: Option<(u16, u16)>,
    pub(super) share: Option<PathBuf>,
    pub(super) console: Option<PathBuf>,
}

impl Plan {
    /// The program among the files.
    pub(super) fn weft(&self) -> Result<&Path> {
        let weft = self.files.iter().find(|(name, _)| name == WEFT);
        weft.map(|(_, path)| path.as_path()).context("the head lacks files=weft")
    }

    /// Merges the heads of scripts and the options; builds `weft` if one of them asks for it. The
    /// scripts get the same arguments.
    pub(super) fn new(scripts: &[PathBuf], options: &Options, args: &[String]) -> Result<Self> {
        let heads = scripts.iter().map(|script| Head::read(script)).collect::<Result<Vec<_>>>()?;
        let mut files = BTreeMap::new();
        let beside =
            |script: &Path, file: &String| in_dir(script.parent().unwrap_or(Path::new("")), file);
        let named = scripts
            .iter()
            .zip(&heads)
            .flat_map(|(script, head)| head.files.iter().map(move |file| beside(script, file)));
        for file in named.chain(options.files.clone()).collect::<BTreeSet<_>>() {
            let (name, path) = resolve(&file, options.weft.as_deref())?;
            let same = files
                .insert(name, path.clone())
                .is_none_or(|other| other.canonicalize().ok() == path.canonicalize().ok());
            ensure!(same, "there are two files with the name of {}", path.display());
        }
        let net = options.net || heads.iter().any(|head| head.net);
        let instructions = options.instructions || heads.iter().any(|head| head.instructions);
        let smp = options.smp.or(heads.iter().filter_map(|head| head.smp).max());
        let mut modules = options.modules.clone();
        modules.extend(net.then(|| "virtio_net".to_owned()));
        let systemd = heads.iter().any(|head| head.systemd);
        modules.extend(systemd.then(|| "virtio_blk".to_owned()));
        if options.share.is_some() {
            modules.extend(["9p".to_owned(), "9pnet_virtio".to_owned()]);
        }
        Ok(Self {
            cases: scripts
                .iter()
                .zip(&heads)
                .map(|(script, head)| Case::new(script, head, options, args))
                .collect(),
            files: files.into_iter().collect(),
            packages: heads
                .iter()
                .flat_map(|head| &head.packages)
                .chain(&options.pkgs)
                .cloned()
                .collect(),
            modules,
            env: options.env.clone(),
            kernel: options
                .kernel
                .or(heads.iter().filter_map(|head| head.kernel).max())
                .unwrap_or_default(),
            mem_mib: options
                .mem
                .or(heads.iter().filter_map(|head| head.mem_mib).max())
                .unwrap_or(DEFAULT_MEM_MIB),
            smp: if instructions { 1 } else { smp.unwrap_or(DEFAULT_SMP) },
            instructions,
            net,
            disk: heads.iter().any(|head| head.disk),
            systemd,
            forward: options.forward,
            share: options.share.clone(),
            console: options.console.clone(),
        })
    }
}

/// Divides scripts by the hardware that they need: those of a group can share a machine.
pub(super) fn grouped(scripts: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>> {
    let mut groups: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
    for script in scripts {
        let Head { smp, instructions, net, disk, systemd, kernel, .. } = Head::read(script)?;
        let hardware = (kernel, smp, instructions, net, disk, systemd);
        groups.entry(hardware).or_default().push(script.clone());
    }
    Ok(groups.into_values().collect())
}

/// The packages that a script's head names.
pub(super) fn packages_of(script: &Path) -> Result<BTreeSet<String>> {
    Ok(Head::read(script)?.packages.into_iter().collect())
}

/// The series of the kernel that a script's head asks for.
pub(super) fn kernel_of(script: &Path) -> Result<Series> {
    Ok(Head::read(script)?.kernel.unwrap_or_default())
}

/// Whether a script says of itself that it is long.
pub(super) fn is_long(script: &Path) -> Result<bool> {
    Ok(Head::read(script)?.long)
}

/// A script's file name without `.sh`.
pub(super) fn name_of(script: &Path) -> String {
    script.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// What a script's head says to people.
pub(super) fn about(script: &Path) -> Result<String> {
    Ok(Head::read(script)?.about)
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

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let (here, there) = text.split_once(':').ok_or("write PORT:PORT")?;
    let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a port"));
    Ok((port(here)?, port(there)?))
}

// Header of a script.
//
// A head is the comment lines at the top of a script; those of the form `# lab: key=value …` are
// read. Lists are comma-separated, a key may come more than once, and paths are relative to the
// script.

/// The head of a script.
#[derive(Debug, Default, PartialEq)]
struct Head {
    /// What it tells people: all other comments, in one line.
    about: String,
    files: Vec<String>,
    packages: Vec<String>,
    modules: Vec<String>,
    kernel: Option<Series>,
    mem_mib: Option<u64>,
    smp: Option<u32>,
    instructions: bool,
    timeout_s: Option<u64>,
    net: bool,
    /// The guest has a disk by vhost-user.
    disk: bool,
    /// The case runs below systemd.
    systemd: bool,
    /// It runs only when it is asked for, and with `cargo xtask long`.
    long: bool,
}

impl Head {
    fn read(script: &Path) -> Result<Self> {
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
    use std::fs;

    use super::*;

    #[test]
    fn options_add_to_the_head_and_replace_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("case.sh");
        fs::write(&script, "#!/bin/sh\n# lab: files=case.sh modules=a timeout=60 mem=2048\n")
            .unwrap();
        let options = Options {
            modules: vec!["b".into()],
            timeout: Some(9),
            net: true,
            ..Options::default()
        };
        let plan = Plan::new(std::slice::from_ref(&script), &options, &["x".into()]).unwrap();
        assert_eq!(plan.modules, ["b", "virtio_net"]);
        assert_eq!(plan.files, [("case.sh".to_owned(), script.clone())]);
        assert_eq!((plan.mem_mib, plan.smp), (2048, DEFAULT_SMP));
        let [case] = &plan.cases[..] else { panic!("{:?}", plan.cases) };
        assert_eq!((case.name.as_str(), case.timeout), ("case", Duration::from_secs(9)));
        assert_eq!(
            (&case.modules[..], &case.args[..]),
            (&["a".to_owned()][..], &["x".to_owned()][..])
        );

        let absent = Options { files: vec!["absent".into()], ..Options::default() };
        assert!(Plan::new(&[script], &absent, &[]).is_err());
    }

    #[test]
    fn scripts_share_a_machine_where_they_want_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, head: &str| {
            let script = dir.path().join(name);
            fs::write(&script, format!("#!/bin/sh\n# lab: {head}\n")).unwrap();
            script
        };
        let scripts = [
            write("a.sh", "modules=x pkgs=p mem=900"),
            write("b.sh", "smp=4"),
            write("d.sh", "kernel=backports"),
            write("c.sh", "modules=y pkgs=p,q mem=700"),
        ];
        let groups = grouped(&scripts).unwrap();
        assert_eq!(
            groups,
            [
                vec![scripts[0].clone(), scripts[3].clone()],
                vec![scripts[1].clone()],
                vec![scripts[2].clone()]
            ]
        );
        let plan = Plan::new(&groups[0], &Options::default(), &[]).unwrap();
        assert_eq!((plan.mem_mib, plan.packages.len(), plan.cases.len()), (900, 2, 2));
    }

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
