//! The versions of a copy's crates.

use anyhow::{Context, Result};

/// Returns a file of the workspace as it is in the copy of this name: there the crates have versions
/// of their own.
///
/// Cargo names what it builds by package and version, and a package by its path *within* its
/// workspace. So a crate of the copy with the version of the original would have the original's
/// name in the target directory that both use, and cargo would take one for the other.
pub fn of_copy(copy: &str, path: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let edit = match path {
        "Cargo.toml" => manifest,
        "Cargo.lock" => lock,
        _ => return Ok(bytes),
    };
    let text = String::from_utf8(bytes).with_context(|| path.to_owned())?;
    edit(&text, copy).map(String::into_bytes).with_context(|| format!("{path} has no version"))
}

/// Marks the version that all crates of the workspace have.
fn manifest(text: &str, mark: &str) -> Option<String> {
    let at = text.find("[workspace.package]")?;
    let (before, section) = text.split_at(at);
    Some(format!("{before}{}", marked(section, mark)?))
}

/// Marks the version of each package that has no source, which are those of the workspace.
fn lock(text: &str, mark: &str) -> Option<String> {
    let packages = text.split("\n\n").map(|package| {
        let is_ours = package.contains("[[package]]") && !package.contains("\nsource = ");
        if is_ours { marked(package, mark) } else { Some(package.to_owned()) }
    });
    packages.collect::<Option<Vec<_>>>().map(|packages| packages.join("\n\n"))
}

/// Adds a mark to the first version in a text, as metadata of a build (Semantic Versioning, 10).
fn marked(text: &str, mark: &str) -> Option<String> {
    let value = text.find("\nversion = \"")? + "\nversion = \"".len();
    let end = value + text[value..].find('"')?;
    Some(format!("{}+{mark}{}", &text[..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_crates_of_the_workspace_get_other_versions() {
        let manifest =
            b"[workspace]\n\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let marked = of_copy("planted", "Cargo.toml", manifest.to_vec()).unwrap();
        let text = String::from_utf8(marked).unwrap();
        assert_eq!(
            text,
            "[workspace]\n\n[workspace.package]\nversion = \"0.1.0+planted\"\nedition = \"2024\"\n"
        );
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        let marked = of_copy("planted", "Cargo.lock", lock.into()).unwrap();
        let text = String::from_utf8(marked).unwrap();
        assert_eq!(text, lock.replace("0.1.0", "0.1.0+planted"));
        assert_eq!(of_copy("planted", "src/lib.rs", b"x".to_vec()).unwrap(), b"x");
        assert!(of_copy("planted", "Cargo.toml", b"[workspace]\n".to_vec()).is_err());
    }
}
