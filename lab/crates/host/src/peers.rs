//! Programs of other projects in a cache directory: unpacked without root, and started by scripts
//! that say where their libraries are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use xtask::sh;

use crate::debian;

/// Directories that hold programs, below the root of packages.
const PROGRAM_DIRS: [&str; 4] = ["usr/bin", "usr/sbin", "bin", "sbin"];

/// Starts an unpacked program with the libraries and modules that were unpacked beside it.
const LAUNCHER: &str = r#"#!/bin/sh
root='@root@'
lib='@lib@'
LD_LIBRARY_PATH="$root/usr/lib/$lib:$root/lib/$lib:$root/usr/lib/$lib/ceph${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
FIO_EXT_ENG_DIR="$root/usr/lib/$lib/fio"
QEMU_MODULE_DIR="$root/usr/lib/$lib/qemu"
WIRESHARK_DATA_DIR="$root/usr/share/wireshark"
export LD_LIBRARY_PATH FIO_EXT_ENG_DIR QEMU_MODULE_DIR WIRESHARK_DATA_DIR
exec "$root/@program@" "$@"
"#;

/// nbdkit knows plugins and filters by name in the directory that it was built for only.
const NBDKIT: &str = r#"
for word; do
    shift
    case $word in
        --filter=*) file="$root/usr/lib/$lib/nbdkit/filters/nbdkit-${word#*=}-filter.so" new="--filter=$file" ;;
        *) file="$root/usr/lib/$lib/nbdkit/plugins/nbdkit-$word-plugin.so" new=$file ;;
    esac
    [ -e "$file" ] && word=$new
    set -- "$@" "$word"
done
exec "#;

/// The cache directory.
pub(super) fn directory() -> Result<PathBuf> {
    xtask::peers().context("there is no home directory")
}

/// Downloads packages, with those that they depend on and this system lacks, and unpacks them.
pub(super) fn unpack(packages: &[&str]) -> Result<()> {
    let directory = directory()?;
    let root = directory.join("root");
    let needed = debian::needed_for(packages)?;
    eprintln!("unpacking {} to {}", needed.join(" "), directory.display());
    let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
    fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
    debian::unpack(&root, &needed)?;
    launchers(&root, &directory.join("bin"))
}

/// Writes a script for each unpacked program.
fn launchers(root: &Path, bin: &Path) -> Result<()> {
    fs::create_dir_all(bin)?;
    let lib = library_dir(root).unwrap_or_default();
    for dir in PROGRAM_DIRS {
        let Ok(entries) = fs::read_dir(root.join(dir)) else { continue };
        for entry in entries {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let text = LAUNCHER
                .replace("@root@", &root.to_string_lossy())
                .replace("@lib@", &lib)
                .replace("@program@", &format!("{dir}/{name}"));
            let text = if name == "nbdkit" { text.replace("\nexec ", NBDKIT) } else { text };
            sh::script(&bin.join(name), &text)?;
        }
    }
    Ok(())
}

/// The name of the directory of this architecture's libraries.
fn library_dir(root: &Path) -> Option<String> {
    let entries = fs::read_dir(root.join("usr/lib")).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.into_iter().find(|name| name.contains("-linux-gnu"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn launchers_start_programs_with_their_libraries_and_plugins() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("ro ot");
        let plugins = root.join("usr/lib/x-linux-gnu/nbdkit/plugins");
        fs::create_dir_all(&plugins).unwrap();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(plugins.join("nbdkit-memory-plugin.so"), "").unwrap();
        let program = "#!/bin/sh\necho \"$LD_LIBRARY_PATH\"\nprintf '%s\\n' \"$@\"\n";
        for name in ["nbdkit", "fio"] {
            sh::script(&root.join("usr/bin").join(name), program).unwrap();
        }
        let bin = directory.path().join("bin");
        launchers(&root, &bin).unwrap();
        let said = |name: &str| {
            sh::output(Command::new(bin.join(name)).args(["-U", "a b", "memory", "size=1M"]))
                .unwrap()
        };
        let root = root.display();
        let lines: Vec<String> = said("fio").lines().map(str::to_owned).collect();
        assert!(lines[0].starts_with(&format!("{root}/usr/lib/x-linux-gnu:")), "{}", lines[0]);
        assert_eq!(lines[1..], ["-U", "a b", "memory", "size=1M"]);
        let plugin = format!("{root}/usr/lib/x-linux-gnu/nbdkit/plugins/nbdkit-memory-plugin.so");
        let lines: Vec<String> = said("nbdkit").lines().map(str::to_owned).collect();
        assert_eq!(lines[1..], ["-U", "a b", plugin.as_str(), "size=1M"]);
    }
}
