//! An initramfs in the making: guest paths and what is there, written as a `newc` cpio archive
//! (the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::{
    collections::BTreeMap,
    fs,
    fs::File,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const END: &str = "TRAILER!!!";

#[derive(Debug)]
enum Body {
    Bytes(Vec<u8>),
    File { path: PathBuf, len: u64 },
}

impl Body {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

/// An initramfs. Paths are relative to the guest's root; a later entry replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct Image {
    entries: BTreeMap<String, (u32, Body)>,
}

impl Image {
    fn put(&mut self, path: &str, mode: u32, body: Body) {
        let path = path.trim_matches('/');
        if let Some((parent, _)) = path.rsplit_once('/')
            && !self.entries.contains_key(parent)
        {
            self.dir(parent, 0o755);
        }
        self.entries.insert(path.to_owned(), (mode, body));
    }

    pub(super) fn dir(&mut self, path: &str, mode: u32) {
        self.put(path, DIRECTORY | mode, Body::Bytes(Vec::new()));
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.put(path, SYMLINK | 0o777, Body::Bytes(target.into()));
    }

    pub(super) fn text(&mut self, path: &str, text: impl Into<String>) {
        self.put(path, REGULAR | 0o644, Body::Bytes(text.into().into_bytes()));
    }

    /// A file of the host, with the mode that it has there.
    pub(super) fn file(&mut self, path: &str, source: &Path) -> Result<()> {
        let metadata =
            fs::metadata(source).with_context(|| format!("cannot read {}", source.display()))?;
        let mode = REGULAR | (metadata.permissions().mode() & 0o777) | 0o444;
        self.put(path, mode, Body::File { path: source.to_owned(), len: metadata.len() });
        Ok(())
    }

    /// A file of the host that the guest executes.
    pub(super) fn program(&mut self, path: &str, source: &Path) -> Result<()> {
        self.file(path, source)?;
        if let Some((mode, _)) = self.entries.get_mut(path) {
            *mode |= 0o111;
        }
        Ok(())
    }

    /// What is below a directory of the host, where `keep` likes its path relative to that
    /// directory. Returns the regular files on the host.
    pub(super) fn tree(
        &mut self,
        base: &str,
        root: &Path,
        keep: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut open = vec![root.to_owned()];
        while let Some(dir) = open.pop() {
            for entry in
                fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?
            {
                let path = entry?.path();
                let relative = path.strip_prefix(root)?.to_string_lossy();
                if !keep(&relative) {
                    continue;
                }
                let place = merged(&format!("{base}/{relative}"));
                let kind = fs::symlink_metadata(&path)?.file_type();
                if kind.is_symlink() {
                    self.link(&place, &fs::read_link(&path)?.to_string_lossy());
                } else if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() {
                    self.file(&place, &path)?;
                    files.push(path);
                }
            }
        }
        Ok(files)
    }

    /// Writes the archive; returns its length in bytes.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result<u64> {
        let mut total = 0;
        for (number, (path, (mode, body))) in self.entries.iter().enumerate() {
            total += header(out, number as u64 + 1, *mode, body.len(), path)?;
            match body {
                Body::Bytes(bytes) => out.write_all(bytes)?,
                Body::File { path, len } => {
                    let copied = io::copy(&mut File::open(path)?, out)?;
                    anyhow::ensure!(copied == *len, "{} changed while it was read", path.display());
                }
            }
            total += body.len() + pad(out, body.len())?;
        }
        Ok(total + header(out, 0, 0, 0, END)?)
    }
}

/// The directories that Debian merged into /usr are links in the guest too, so that what lies in
/// one of them is put where the link leads.
pub(super) fn merged(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    if matches!(first, "bin" | "sbin" | "lib" | "lib64") {
        format!("usr/{path}")
    } else {
        path.to_owned()
    }
}

/// One entry's header: magic, thirteen numbers of eight hexadecimal digits, the name.
fn header(out: &mut dyn Write, inode: u64, mode: u32, len: u64, path: &str) -> Result<u64> {
    let len = u32::try_from(len).with_context(|| format!("{path} is too large for the image"))?;
    let name_len = path.len() + 1;
    write!(out, "070701{inode:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{len:08x}", 0, 0, 1, 0)?;
    write!(out, "{:08x}{:08x}{:08x}{:08x}{name_len:08x}{:08x}{path}\0", 0, 0, 0, 0, 0)?;
    let written = (6 + 13 * 8 + name_len) as u64;
    Ok(written + pad(out, written)?)
}

/// Zeroes up to the next multiple of four.
fn pad(out: &mut dyn Write, len: u64) -> Result<u64> {
    let missing = len.wrapping_neg() % 4;
    out.write_all(&[0; 4][..missing as usize])?;
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_parents_first_and_everything_aligned() {
        let mut image = Image::default();
        image.text("a/b/text", "hello");
        image.link("a-link", "a/b/text");
        let mut archive = Vec::new();
        let len = image.write(&mut archive).unwrap();
        assert_eq!(len, archive.len() as u64);
        assert_eq!(len % 4, 0);

        let text = String::from_utf8(archive).unwrap();
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?}"));
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/text\0"));
        assert!(at("a/b/text\0") < at("hello") && at("hello") < at(END));
        let header = &text[at("a/b/text\0") - 110..];
        assert_eq!(&header[..6], "070701");
        assert_eq!(&header[14..22], "000081a4", "mode 100644");
        assert_eq!(&header[54..62], "00000005", "length");
        assert_eq!(&header[94..102], "00000009", "length of the name");
    }

    #[test]
    fn keeps_modes_links_and_the_merged_usr() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::create_dir_all(dir.path().join("usr/share/doc")).unwrap();
        fs::write(dir.path().join("bin/tool"), "x").unwrap();
        fs::set_permissions(dir.path().join("bin/tool"), fs::Permissions::from_mode(0o700))
            .unwrap();
        fs::write(dir.path().join("usr/share/doc/readme"), "x").unwrap();
        std::os::unix::fs::symlink("tool", dir.path().join("bin/alias")).unwrap();

        let mut image = Image::default();
        let files = image.tree("", dir.path(), &|path| path != "usr/share/doc").unwrap();
        assert_eq!(files, [dir.path().join("bin/tool")]);
        assert_eq!(image.entries["usr/bin/tool"].0, REGULAR | 0o744);
        assert_eq!(image.entries["usr/bin/alias"].0, SYMLINK | 0o777);
        assert!(!image.entries.keys().any(|path| path.contains("doc")));
    }
}
