//! Modules of the running kernel.

use std::path::{Path, PathBuf};

/// The modules that are loaded, the newest first.
pub fn loaded() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Returns whether a module is neither loaded nor a part of the kernel.
pub fn must_load(module: &str) -> bool {
    !loaded().contains(&spelled(module)) && !is_listed(&directory().join("modules.builtin"), module)
}

/// Returns whether a module can be loaded, or need not be.
pub fn is_there(module: &str) -> bool {
    !must_load(module) || is_listed(&directory().join("modules.dep"), module)
}

/// The release of the running kernel.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn directory() -> PathBuf {
    Path::new("/lib/modules").join(release())
}

/// Looks for a module in a list of their files, each at the start of a line.
fn is_listed(list: &Path, module: &str) -> bool {
    let text = std::fs::read_to_string(list).unwrap_or_default();
    has(&text, module)
}

fn has(list: &str, module: &str) -> bool {
    let of_line = |line: &str| {
        let path = line.split(':').next().unwrap_or(line);
        let file = path.rsplit('/').next().unwrap_or(path);
        file.split_once(".ko").map(|(name, _)| spelled(name))
    };
    list.lines().any(|line| of_line(line) == Some(spelled(module)))
}

/// A name as the kernel spells it.
fn spelled(module: &str) -> String {
    module.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_by_its_file() {
        let list = "kernel/drivers/nvme/target/nvmet-tcp.ko.xz: kernel/drivers/nvme/target/nvmet.ko.xz\n\
                    kernel/drivers/block/null_blk/null_blk.ko:\n";
        assert!(has(list, "nvmet-tcp") && has(list, "nvmet_tcp") && has(list, "null-blk"));
        assert!(!has(list, "nvmet") && !has(list, "tcp") && !has("", "nvmet"));
    }
}
