//! Requirements of peers in the kernel: root, modules, and a place where they are configured.

use super::super::installed;
use super::super::peer::PeerProgram;
use super::steps::CONFIGFS;
use crate::commands::internal::study_kernel::modules;
use std::path::Path;
use weft_server::attach::run;

/// The programs that load and unload modules.
pub const KMOD: &[PeerProgram] = &[
    PeerProgram { name: "modprobe", package: Some("kmod") },
    PeerProgram { name: "rmmod", package: Some("kmod") },
];

/// Names all that is missing for the use of programs and modules, and how to get it.
pub fn missing(programs: &[PeerProgram], wanted: &[&str]) -> Vec<String> {
    let mut missing = Vec::new();
    if !run::is_root() {
        missing.push("it changes objects of the kernel, which takes root: run weft by sudo".into());
    }
    for program in programs {
        missing.extend(installed::missing(&[*program]).filter(|why| !missing.contains(why)));
    }
    let mut lacking: Vec<&str> =
        wanted.iter().copied().filter(|module| !modules::is_there(module)).collect();
    lacking.sort_unstable();
    lacking.dedup();
    if !lacking.is_empty() {
        let (all, release) = (lacking.join(", "), modules::release());
        missing.push(format!(
            "the kernel {release} lacks the modules {all}: install one that has them \
             (on Ubuntu `apt-get install linux-modules-extra-{release}`)"
        ));
    }
    missing
}

/// Returns why nothing can be configured, if that is so.
pub fn no_configfs() -> Option<String> {
    let is_mounted = std::fs::read_to_string("/proc/mounts")
        .is_ok_and(|text| text.lines().any(|line| line.split(' ').nth(1) == Some(CONFIGFS)));
    let how = format!("`modprobe configfs; mount -t configfs configfs {CONFIGFS}`");
    (!is_mounted).then(|| format!("configfs is not mounted at {CONFIGFS}: {how}"))
}

/// Refuses a path that the kernel would read otherwise.
pub fn check_path(path: &str) -> Result<(), String> {
    match path.contains(char::is_whitespace) {
        true => Err(format!("the kernel takes no path with a space or an end of line: {path:?}")),
        false => Ok(()),
    }
}

/// The names of the directories in another one, in their order.
pub fn directories(place: &Path) -> Vec<String> {
    let all = std::fs::read_dir(place).into_iter().flatten().flatten();
    let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|it| it.is_dir());
    let mut names: Vec<String> = all
        .filter(is_directory)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A new directory for a test.
#[cfg(test)]
pub fn scratch(name: &str) -> std::path::PathBuf {
    let id = format!("weft-{name}-{}", std::process::id());
    let place = std::env::temp_dir().join(id);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// A wish for a test.
#[cfg(test)]
pub fn wish(device: &super::super::device::PeerDevice) -> super::super::peer::DeviceWish<'_> {
    super::super::peer::DeviceWish {
        device,
        memory: "/memory",
        address: "127.0.0.1:4421".parse().unwrap(),
        directory: "/directory",
        name: "name",
        cpus: &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_word() {
        assert!(check_path("/d/x,y").is_ok());
        for path in ["/d/x y", "/d/x\n", "/d/\tx"] {
            assert!(check_path(path).is_err_and(|why| why.contains("end of line")));
        }
    }

    #[test]
    fn a_module_that_no_kernel_has_is_named() {
        let program = PeerProgram { name: "weft-no-such-program", package: Some("of-it") };
        let all = missing(&[program, program], &["weft-no-such-module", "weft-none"]);
        let mut said = all.iter().filter(|why| !why.contains("root"));
        assert!(said.next().is_some_and(|why| why.contains("`apt-get install of-it`")), "{all:?}");
        let modules = "lacks the modules weft-no-such-module, weft-none:";
        assert!(said.next().is_some_and(|why| why.contains(modules)), "{all:?}");
        assert_eq!(said.next(), None);
        let others = directories(Path::new("/no/such/directory"));
        assert_eq!(others, Vec::<String>::new());
    }
}
