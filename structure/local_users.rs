//! Rules against other users of the machine, and peers: they cannot redirect written files, nor
//! fill the log.

use syn::{
    ItemMod, ItemUse, Macro, UseTree,
    visit::{self, Visit},
};

use crate::{demand, files, tokens};

/// The functions by which all other code does it. They follow no link of another user.
const HOMES: [&str; 6] = [
    "crates/io/src/durable.rs",
    "crates/io/src/kernel_file.rs",
    "crates/io/src/output.rs",
    "crates/io/src/private_files.rs",
    "crates/io/src/secret_file.rs",
    "crates/io/src/socket_file.rs",
];

/// Other places, and why they may.
const EXCEPTIONS: [(&str, &str); 3] = [
    ("crates/block/src/file/open.rs", "a source is the file that its user names, also by a link"),
    ("crates/block/src/file/system.rs", "a file that is open already, by /proc/self/fd"),
    ("crates/io/src/drives/windows.rs", "drives of Windows are in no directory"),
];

/// Where the log has lines that peers and other users cause.
const FACING: [&str; 3] =
    ["crates/target/src/export/", "crates/server/src/management/", "crates/server/src/metrics/"];

/// Files there with lines that they do not cause, and what does.
const NOT_CAUSED: [(&str, &str); 9] = [
    ("crates/target/src/export/failures.rs", "one line a minute for each kind of failure"),
    ("crates/target/src/export/fuse/start.rs", "the start of the export"),
    ("crates/target/src/export/nvme/subsystems.rs", "a change of the configuration"),
    ("crates/target/src/export/fuse/disk.rs", "the kernel's driver"),
    ("crates/target/src/export/fuse/mod.rs", "the end of the export"),
    ("crates/target/src/export/ublk/disk.rs", "the kernel's driver"),
    ("crates/target/src/export/ublk/mod.rs", "the end of the export"),
    ("crates/server/src/management/capture.rs", "the end of a capture, of which there is one"),
    ("crates/server/src/management/running.rs", "the start of the server"),
];

/// Ends of the paths of functions that follow links, or take a path where a descriptor is safe.
const UNSAFE: [[&str; 2]; 18] = [
    ["File", "create"],
    ["File", "options"],
    ["OpenOptions", "new"],
    ["UnixDatagram", "bind"],
    ["UnixListener", "bind"],
    ["UnixListener", "bind_addr"],
    ["fs", "chmod"],
    ["fs", "chmodat"],
    ["fs", "chown"],
    ["fs", "copy"],
    ["fs", "open"],
    ["fs", "openat"],
    ["fs", "set_permissions"],
    ["fs", "write"],
    ["libc", "chmod"],
    ["libc", "chown"],
    ["libc", "open"],
    ["libc", "openat"],
];

/// What a file uses of that, and its lines in the log, outside of its tests.
#[derive(Default)]
struct Uses {
    functions: Vec<String>,
    lines: Vec<String>,
}

impl Uses {
    fn of(text: &str) -> Self {
        let mut uses = Self::default();
        uses.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{error}")));
        uses
    }

    fn path(&mut self, path: &[String]) {
        if let [.., place, name] = path
            && UNSAFE.iter().any(|[of, function]| place == of && name == function)
        {
            self.functions.push(format!("{place}::{name}"));
        }
    }

    fn imported(&mut self, tree: &UseTree, stem: &[String]) {
        let with = |name: &syn::Ident| [stem, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.imported(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.imported(tree, stem)),
            UseTree::Name(name) => self.path(&with(&name.ident)),
            UseTree::Rename(name) => self.path(&with(&name.ident)),
            UseTree::Glob(_) => {}
        }
    }
}

impl<'a> Visit<'a> for Uses {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !item.attrs.iter().any(|attribute| tokens::requires(attribute, "test")) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.imported(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let path_of = path.segments.iter().map(|segment| segment.ident.to_string());
        self.path(&path_of.collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'a Macro) {
        let name = item.path.segments.last().map(|last| last.ident.to_string());
        self.lines.extend(name.filter(|name| ["warn", "error"].contains(&name.as_str())));
        tokens::paths_in(item.tokens.clone()).iter().for_each(|path| self.path(path));
    }
}

/// The sources of what users run.
fn sources() -> Vec<(String, String)> {
    let is_run = |path: &str| {
        let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
        path.contains("/src/") && !is_test && !path.contains("testing/")
    };
    files::below("crates", "rs").into_iter().filter(|(path, _)| is_run(path)).collect()
}

#[test]
fn files_are_written_where_nobody_else_leads() {
    let is_allowed =
        |path: &str| HOMES.contains(&path) || EXCEPTIONS.iter().any(|(place, _)| *place == path);
    let mut faults = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !is_allowed(path)) {
        let functions = Uses::of(text).functions.into_iter();
        faults.extend(functions.map(|name| format!("{path}: {name}")));
    }
    let rule = "another user could have put a link there: use `weft_io::durable`, `private_files`, \
                `secret_file`, `output`, `kernel_file` or `socket_file`";
    demand(rule, faults);
}

#[test]
fn each_home_and_exception_is_needed() {
    let sources = sources();
    let listed = HOMES.into_iter().chain(EXCEPTIONS.map(|(path, _)| path));
    let faults = listed.filter(|listed| {
        !sources.iter().any(|(path, text)| path == listed && !Uses::of(text).functions.is_empty())
    });
    demand("remove it from the lists in local_users.rs", faults.map(str::to_owned).collect());
}

#[test]
fn lines_that_others_cause_have_a_limited_rate() {
    let (mut faults, mut not_needed) = (Vec::new(), NOT_CAUSED.map(|(path, _)| path).to_vec());
    for (path, text) in sources() {
        let lines = Uses::of(&text).lines;
        if lines.is_empty() || !FACING.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        let listed = not_needed.len();
        not_needed.retain(|listed| *listed != path);
        if not_needed.len() == listed {
            faults.extend(lines.into_iter().map(|name| format!("{path}: {name}!")));
        }
    }
    demand("others could fill the log: use `weft_endpoint::refusals`", faults);
    let not_needed = not_needed.into_iter().map(str::to_owned).collect();
    demand("remove it from the list in local_users.rs", not_needed);
}

#[test]
fn finds_calls_imports_and_macros_but_no_tests() {
    let found = Uses::of(
        "use std::{fs::{File, write}, io};
         fn f() { fs::write(p, b); let o = std::fs::OpenOptions::new(); vec![File::create(p)]; }
         fn g() { File::open(p); file.write(b); file.set_permissions(m); OpenOptions::default(); }
         #[cfg(all(test, unix))] mod tests { fn h() { fs::write(p, b) } }
         mod system { fn i() { UnixListener::bind(p); tracing::warn!(p); info!(p) } }",
    );
    let expected =
        ["fs::write", "fs::write", "OpenOptions::new", "File::create", "UnixListener::bind"];
    assert_eq!(found.functions, expected);
    assert_eq!(found.lines, ["warn"]);
}
