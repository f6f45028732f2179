//! Contents of the guest: a small Debian-like root with busybox, the modules, packages and files
//! that the run needs, and `lab/init` as its first process.

use std::{
    collections::{BTreeMap, HashSet},
    env, fs,
    fs::File,
    io::{BufWriter, Read, Write},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use goblin::elf::Elf;
use xtask::sh;

use super::{
    cache::Cache,
    image::Image,
    kernel,
    kernel::Kernel,
    packages,
    plan::{Case, Plan},
};
use crate::image::merged;

/// Modules that a script can load without naming them, beside those that it names.
const OFFERED_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "virtio_rng",
    "brd",
    "loop",
    "null_blk",
    "ext4",
    "crc32c_generic",
    "crc32c_intel",
];

const DIRS: &[&str] = &[
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "proc",
    "sys",
    "dev",
    "run",
    "mnt",
    "root",
    "lab",
    "var/lib",
];

const LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("var/run", "/run"),
    ("var/lock", "/run/lock"),
];

const TEXTS: &[(&str, &str)] = &[
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost lab\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];

/// Parts of packages that no script misses.
const NOT_TAKEN: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/bash-completion",
    "usr/share/zsh",
    "etc/init.d",
    "lib/udev/hwdb.d",
];

/// Parts that only systemd reads.
const OF_SYSTEMD: &[&str] = &["usr/lib/systemd", "lib/systemd"];

/// A guest that is ready to boot.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) kernel: PathBuf,
    /// The initramfs: a file without a name, which goes when this does.
    pub(super) image: File,
    pub(super) image_bytes: u64,
}

/// Builds the guest for a plan.
pub(super) fn build(cache: &Cache, plan: &Plan) -> Result<Guest> {
    let kernel = kernel::fetch(cache, plan.kernel)?;
    let mut image = skeleton()?;
    add_modules(&mut image, &kernel, plan)?;
    let programs = add_files(&mut image, plan)?;
    add_packages(&mut image, cache, plan, programs)?;
    if plan.systemd {
        image.tree("lab/systemd", &sh::root().join("lab/systemd"), &|_| true)?;
    }
    image.text("lab/conf", configuration(plan));
    let mut out = BufWriter::new(tempfile::tempfile()?);
    let image_bytes = image.write(&mut out)?;
    out.flush()?;
    Ok(Guest { kernel: kernel.image(), image: out.into_inner()?, image_bytes })
}

/// The root with busybox, its applets, dash, and the lab's own files.
fn skeleton() -> Result<Image> {
    let mut image = Image::default();
    DIRS.iter().for_each(|dir| image.dir(dir, 0o755));
    image.dir("tmp", 0o1777);
    LINKS.iter().for_each(|(path, target)| image.link(path, target));
    TEXTS.iter().for_each(|(path, text)| image.text(path, *text));
    let busybox = Path::new("/bin/busybox");
    for applet in sh::output(Command::new(busybox).arg("--list"))?.split_whitespace() {
        image.link(&format!("usr/bin/{applet}"), "busybox");
    }
    image.link("usr/sbin/modprobe", "../bin/busybox");
    image.program("usr/bin/busybox", busybox)?;
    // busybox's own shell runs its applets even where a package brings the real program
    image.program("usr/bin/dash", Path::new("/bin/dash"))?;
    image.link("usr/bin/sh", "dash");
    let lab = sh::root().join("lab");
    image.program("init", &lab.join("init"))?;
    image.program("lab/case", &lab.join("case"))?;
    image.file("lab/lib.sh", &lab.join("lib.sh"))?;
    image.program("lab/bin/fio", &lab.join("fio"))?;
    Ok(image)
}

fn add_modules(image: &mut Image, kernel: &Kernel, plan: &Plan) -> Result<()> {
    let named = plan.modules.iter().chain(plan.cases.iter().flat_map(|case| &case.modules));
    let base = format!("usr/lib/modules/{}", kernel.release());
    // Newer kernels have some of them in others.
    let offered = OFFERED_MODULES.iter().copied().filter(|name| kernel.has(name));
    let modules = kernel.closure(offered.chain(named.map(String::as_str)))?;
    for name in &modules {
        let (path, file) = kernel.module(name)?;
        image.file(&format!("{base}/{path}"), &file)?;
    }
    for (name, text) in kernel.indexes(&modules)? {
        image.text(&format!("{base}/{name}"), text);
    }
    image.file(&format!("boot/config-{}", kernel.release()), &kernel.config())
}

/// The cases and the files of the plan; returns what may need libraries.
fn add_files(image: &mut Image, plan: &Plan) -> Result<Vec<PathBuf>> {
    let mut programs: Vec<PathBuf> = vec!["/bin/busybox".into(), "/bin/dash".into()];
    for (name, path) in &plan.files {
        if path.is_dir() {
            programs.extend(image.tree(&format!("lab/{name}"), path, &|_| true)?);
        } else {
            image.file(&format!("lab/{name}"), path)?;
            programs.push(path.clone());
        }
    }
    for case in &plan.cases {
        image.program(&format!("lab/cases/{}.sh", case.name), &case.script)?;
        image.text(&format!("lab/cases/{}.conf", case.name), case_configuration(case));
    }
    Ok(programs)
}

fn add_packages(
    image: &mut Image,
    cache: &Cache,
    plan: &Plan,
    mut programs: Vec<PathBuf>,
) -> Result<()> {
    let mut libraries = Libraries::default();
    let packages = packages::fetch(cache, &plan.packages)?;
    for files in &packages.files {
        let wanted = |path: &str| {
            !NOT_TAKEN.contains(&path) && (plan.systemd || !OF_SYSTEMD.contains(&path))
        };
        programs.extend(image.tree("", files, &wanted)?);
    }
    packages.files.iter().chain(&packages.libraries).try_for_each(|root| libraries.add(root))?;
    libraries.follow(image, programs)
}

/// What `lab/init` reads: settings of its own, and the environment of all scripts.
fn configuration(plan: &Plan) -> String {
    let mut text = String::new();
    for (key, value) in &plan.env {
        text += &format!("export {key}={}\n", quoted(value));
    }
    text += &format!("lab_modules={}\n", quoted(&plan.modules.join(" ")));
    text += &format!("lab_systemd={}\n", u8::from(plan.systemd));
    text +=
        &format!("lab_net={}\nlab_share={}\n", u8::from(plan.net), u8::from(plan.share.is_some()));
    text
}

/// What `lab/case` reads: a script's modules and arguments.
fn case_configuration(case: &Case) -> String {
    let args: Vec<String> = case.args.iter().map(|arg| quoted(arg)).collect();
    format!("case_modules={}\nset -- \"$1\" {}\n", quoted(&case.modules.join(" ")), args.join(" "))
}

/// A word as the shell reads it back unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

// Shared libraries: which ones a program needs, and where they are.

/// Where this machine keeps its libraries.
const HOST_DIRS: &[&str] = &["/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib", "/usr/local/lib"];

/// Where the guest looks for libraries that no package placed; its init sets the search path.
const GUEST_DIR: &str = "lab/lib";

/// The C library and the compiler's: always this machine's, never a package's.
const RUNTIME: &[&str] = &[
    "ld-linux-x86-64",
    "libc",
    "libm",
    "libpthread",
    "libdl",
    "librt",
    "libresolv",
    "libutil",
    "libmvec",
    "libanl",
    "libgcc_s",
    "libstdc++",
];

/// What a dynamically linked program or library asks for.
#[derive(Debug)]
struct Linkage {
    interpreter: Option<PathBuf>,
    needed: Vec<String>,
    search: Vec<PathBuf>,
}

/// The libraries of packages, by file name.
#[derive(Debug, Default)]
struct Libraries {
    pool: BTreeMap<String, (String, PathBuf)>,
}

impl Libraries {
    /// Adds the libraries of an unpacked package; what is there already wins.
    fn add(&mut self, root: &Path) -> Result<()> {
        let mut open = vec![root.join("lib"), root.join("usr/lib")];
        while let Some(dir) = open.pop() {
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                } else if name.contains(".so") && path.is_file() {
                    let place = merged(&path.strip_prefix(root)?.to_string_lossy());
                    self.pool.entry(name).or_insert((place, path));
                }
            }
        }
        Ok(())
    }

    /// Puts the libraries into the image that the given files need, and those that these need.
    fn follow(&self, image: &mut Image, files: Vec<PathBuf>) -> Result<()> {
        let mut open = files;
        let mut seen = HashSet::new();
        while let Some(file) = open.pop() {
            if !seen.insert(file.clone()) {
                continue;
            }
            let Some(linkage) = linkage(&file)? else { continue };
            if let Some(interpreter) = &linkage.interpreter {
                image.program(&merged(&interpreter.to_string_lossy()), interpreter)?;
            }
            for name in &linkage.needed {
                match self.find(name, &linkage.search) {
                    Some((place, path)) => {
                        image.program(&place, &path)?;
                        open.push(path);
                    }
                    None => eprintln!("lab: {} needs {name}, which is nowhere", file.display()),
                }
            }
        }
        Ok(())
    }

    /// Where a library goes in the guest and where it is here.
    fn find(&self, name: &str, search: &[PathBuf]) -> Option<(String, PathBuf)> {
        let runtime = name.split(".so").next().is_some_and(|stem| RUNTIME.contains(&stem));
        if let Some((place, path)) = self.pool.get(name).filter(|_| !runtime) {
            return Some((place.clone(), path.clone()));
        }
        let private = search.iter().map(PathBuf::as_path).map(|dir| (dir, GUEST_DIR));
        let host = HOST_DIRS.iter().map(|dir| (Path::new(*dir), "usr/lib/x86_64-linux-gnu"));
        private
            .chain(host)
            .map(|(dir, place)| (format!("{place}/{name}"), dir.join(name)))
            .find(|(_, path)| path.is_file())
    }
}

/// What an x86-64 ELF file asks for; `None` for any other file.
fn linkage(file: &Path) -> Result<Option<Linkage>> {
    let mut magic = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(4).read_to_end(&mut magic))
        .with_context(|| format!("cannot read {}", file.display()))?;
    if magic != goblin::elf::header::ELFMAG {
        return Ok(None);
    }
    let bytes = fs::read(file)?;
    let elf = Elf::parse(&bytes).with_context(|| format!("in {}", file.display()))?;
    if elf.header.e_machine != goblin::elf::header::EM_X86_64 {
        return Ok(None);
    }
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let search = elf
        .runpaths
        .iter()
        .chain(&elf.rpaths)
        .flat_map(|paths| paths.split(':'))
        .map(|path| path.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin).into())
        .chain(env::var_os("LD_LIBRARY_PATH").iter().flat_map(env::split_paths))
        .collect();
    Ok(Some(Linkage {
        interpreter: elf.interpreter.map(PathBuf::from),
        needed: elf.libraries.iter().map(|name| (*name).to_owned()).collect(),
        search,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        let word = "it's \"$HOME\" `x`\\ \n*";
        let echoed =
            Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(word))).output();
        assert_eq!(echoed.unwrap().stdout, word.as_bytes());
    }

    #[test]
    fn reads_what_this_very_program_needs() {
        let this = env::current_exe().unwrap();
        let linkage = linkage(&this).unwrap().expect("an ELF file");
        let c = linkage.needed.iter().find(|name| name.starts_with("libc.so"));
        let (place, path) = Libraries::default().find(c.expect("libc"), &[]).expect("libc is here");
        assert!(path.is_file());
        assert!(place.starts_with("usr/lib/"));
        assert!(linkage.interpreter.is_some());
    }

    #[test]
    fn other_files_need_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "#!/bin/sh\n"] {
            let script = dir.path().join("script");
            fs::write(&script, text).unwrap();
            assert!(linkage(&script).unwrap().is_none());
        }
    }

    #[test]
    fn packages_come_before_the_host_but_not_for_the_runtime() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("lib/x86_64-linux-gnu")).unwrap();
        for name in ["libc.so.6", "libz.so.1"] {
            fs::write(root.path().join("lib/x86_64-linux-gnu").join(name), "").unwrap();
        }
        let mut libraries = Libraries::default();
        libraries.add(root.path()).unwrap();
        let (place, path) = libraries.find("libz.so.1", &[]).unwrap();
        assert_eq!(place, "usr/lib/x86_64-linux-gnu/libz.so.1");
        assert!(path.starts_with(root.path()));
        assert!(!libraries.find("libc.so.6", &[]).unwrap().1.starts_with(root.path()));
    }
}
