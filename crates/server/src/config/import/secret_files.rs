//! Names of the files for secrets. An import writes no secret: it names a file that must exist, so
//! that the result does not start without it.

use std::collections::HashMap;

/// Longest name of a file, without its ending.
const STEM_CHARS_MAX: usize = 200;

/// The names that were given.
#[derive(Debug, Default)]
pub struct SecretFiles {
    /// Whose each file is.
    owners: HashMap<String, String>,
}

impl SecretFiles {
    /// Returns the file of an owner, which is the same each time, and of no other owner.
    pub fn of(&mut self, owner: &str, ending: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let stem: String = owner.chars().map(plain).take(STEM_CHARS_MAX).collect();
        // A leading dot would hide it, or name another directory.
        let stem = stem.trim_start_matches('.');
        let names = (1..).map(|n| match n {
            1 if !stem.is_empty() => format!("{stem}.{ending}"),
            _ => format!("{stem}-{n}.{ending}"),
        });
        let is_free = |name: &String| self.owners.get(name).is_none_or(|of| of == owner);
        let name = names.into_iter().find(is_free).unwrap_or_default();
        self.owners.insert(name.clone(), owner.to_owned());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_a_file_of_its_own() {
        let mut files = SecretFiles::default();
        let host = "nqn.2014-08.org.nvmexpress:uuid:1";
        let first = files.of(host, "dhchap");
        assert_eq!(first, "nqn.2014-08.org.nvmexpress-uuid-1.dhchap");
        assert_eq!(files.of(host, "dhchap"), first);
        let other = files.of("nqn.2014-08.org.nvmexpress:uuid/1", "dhchap");
        assert_eq!(other, "nqn.2014-08.org.nvmexpress-uuid-1-2.dhchap");
        assert_eq!(files.of("../../etc/passwd", "secret"), "-..-etc-passwd.secret");
        assert_eq!(files.of("..", "secret"), "-1.secret");
        assert!(files.of(&"é".repeat(500), "secret").len() < 255);
    }
}
