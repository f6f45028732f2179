//! Shared libraries: which ones a program needs, and where they are.

use std::{
    collections::{BTreeMap, HashSet},
    env,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use goblin::elf::Elf;

use super::image::{Image, merged};

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
pub(super) struct Libraries {
    pool: BTreeMap<String, (String, PathBuf)>,
}

impl Libraries {
    /// Adds the libraries of an unpacked package; what is there already wins.
    pub(super) fn add(&mut self, root: &Path) -> Result<()> {
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
    pub(super) fn follow(&self, image: &mut Image, files: Vec<PathBuf>) -> Result<()> {
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
