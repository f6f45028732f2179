//! The guest's kernel: one of Debian's own builds of Linux, and the modules of it that a run needs.

mod series;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    fs::File,
    path::PathBuf,
    process::Command,
};

use anyhow::{Context, Result, bail};
use xtask::sh;

use super::cache::Cache;

pub use series::Series;

/// The kernel in the cache.
#[derive(Debug)]
pub(super) struct Kernel {
    dir: PathBuf,
    release: String,
    /// By name: the path below `modules_dir`, and the names of the modules that it needs.
    modules: BTreeMap<String, (String, Vec<String>)>,
    built_in: HashSet<String>,
}

/// The newest kernel of a series, downloaded first if the cache has none.
pub(super) fn fetch(cache: &Cache, series: Series) -> Result<Kernel> {
    Kernel::open(cache.entry(series.entry(), |at| series.download(at))?)
}

impl Kernel {
    fn open(dir: PathBuf) -> Result<Self> {
        let release = fs::read_to_string(dir.join("release"))?;
        let mut kernel = Self { dir, release, modules: BTreeMap::new(), built_in: HashSet::new() };
        for line in kernel.index("modules.dep")?.lines() {
            let Some((path, needs)) = line.split_once(':') else { continue };
            let needs = needs.split_whitespace().map(module_name).collect();
            kernel.modules.insert(module_name(path), (path.to_owned(), needs));
        }
        kernel.built_in = kernel.index("modules.builtin")?.lines().map(module_name).collect();
        Ok(kernel)
    }

    /// As `uname -r` says it.
    pub(super) fn release(&self) -> &str {
        &self.release
    }

    /// The bootable image.
    pub(super) fn image(&self) -> PathBuf {
        self.dir.join("vmlinuz")
    }

    /// What it was configured with.
    pub(super) fn config(&self) -> PathBuf {
        self.dir.join("config")
    }

    fn modules_dir(&self) -> PathBuf {
        self.dir.join("lib/modules").join(&self.release)
    }

    /// One of depmod's text files.
    fn index(&self, name: &str) -> Result<String> {
        let path = self.modules_dir().join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The named modules and all that they need, without those that are part of the kernel.
    pub(super) fn closure<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<BTreeSet<String>> {
        let mut wanted = BTreeSet::new();
        let mut open: Vec<String> = names.into_iter().map(module_name).collect();
        while let Some(name) = open.pop() {
            if self.built_in.contains(&name) || wanted.contains(&name) {
                continue;
            }
            let Some((_, needs)) = self.modules.get(&name) else {
                bail!("Linux {} has no module `{name}`", self.release);
            };
            open.extend(needs.iter().cloned());
            wanted.insert(name);
        }
        Ok(wanted)
    }

    /// Returns whether it has the module, as a file or built in.
    pub(super) fn has(&self, name: &str) -> bool {
        let name = module_name(name);
        self.built_in.contains(&name) || self.modules.contains_key(&name)
    }

    /// A module's path below the guest's module directory, and its file, decompressed.
    pub(super) fn module(&self, name: &str) -> Result<(String, PathBuf)> {
        let (path, _) = self.modules.get(name).with_context(|| format!("no module `{name}`"))?;
        let Some(plain_path) = path.strip_suffix(".xz") else {
            return Ok((path.clone(), self.modules_dir().join(path)));
        };
        let plain = self.dir.join("plain").join(format!("{name}.ko"));
        if !plain.exists() {
            let partial = plain.with_extension("partial");
            sh::run(
                Command::new("xz")
                    .arg("-dc")
                    .arg(self.modules_dir().join(path))
                    .stdout(File::create(&partial)?),
            )?;
            fs::rename(&partial, &plain)?;
        }
        Ok((plain_path.to_owned(), plain))
    }

    /// The text files by which busybox's modprobe finds the given modules, by name.
    pub(super) fn indexes(
        &self,
        modules: &BTreeSet<String>,
    ) -> Result<[(&'static str, String); 3]> {
        let dependencies = self.index("modules.dep")?;
        let dependencies = lines(&dependencies, |line| {
            line.split_once(':').is_some_and(|(path, _)| modules.contains(&module_name(path)))
        });
        let aliases = self.index("modules.alias")?;
        let aliases = lines(&aliases, |line| {
            line.rsplit(' ').next().is_some_and(|name| modules.contains(&module_name(name)))
        });
        Ok([
            ("modules.dep", dependencies.replace(".ko.xz", ".ko")),
            ("modules.alias", aliases),
            ("modules.builtin", self.index("modules.builtin")?),
        ])
    }
}

fn lines(text: &str, keep: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| keep(line)).flat_map(|line| [line, "\n"]).collect()
}

/// `kernel/drivers/nvme/host/nvme-tcp.ko.xz` and `nvme-tcp` are both the module `nvme_tcp`.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_dependencies_but_not_into_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let modules = dir.path().join("lib/modules/6.12.1");
        fs::create_dir_all(&modules).unwrap();
        fs::write(dir.path().join("release"), "6.12.1").unwrap();
        fs::write(
            modules.join("modules.dep"),
            "kernel/a/nvme-tcp.ko.xz: kernel/a/nvme-core.ko.xz\nkernel/a/nvme-core.ko.xz:\nkernel/b.ko:\n",
        )
        .unwrap();
        fs::write(modules.join("modules.alias"), "alias x-* b\nalias nvme_x nvme_tcp\n").unwrap();
        fs::write(modules.join("modules.builtin"), "kernel/ext4.ko\n").unwrap();
        let kernel = Kernel::open(dir.path().to_owned()).unwrap();

        let names = kernel.closure(["nvme-tcp", "ext4"]).unwrap();
        assert_eq!(names.iter().collect::<Vec<_>>(), ["nvme_core", "nvme_tcp"]);
        assert!(kernel.closure(["absent"]).is_err());
        let [(_, dependencies), (_, aliases), _] = kernel.indexes(&names).unwrap();
        assert_eq!(
            dependencies,
            "kernel/a/nvme-tcp.ko: kernel/a/nvme-core.ko\nkernel/a/nvme-core.ko:\n"
        );
        assert_eq!(aliases, "alias nvme_x nvme_tcp\n");
        assert_eq!(kernel.module("b").unwrap().0, "kernel/b.ko");
    }
}
