//! Authentication of NVMe hosts, from a configuration.

use super::desired::beside;
use super::faults::Finder;
use super::tables::{At, AuthenticationTable, Text};
use crate::dhchap::{check_distinct, parse_group, parse_hash, read};
use crate::values::parse_nqn;
use std::path::{Path, PathBuf};
use weft_endpoint::inventory::Authentication;
use weft_proto::nvme::auth::DhchapSecret;

/// The authentication that a table demands. Paths of files begin at `directory`.
pub fn authentication(
    table: &AuthenticationTable,
    directory: &Path,
    finder: &mut Finder<'_>,
) -> Authentication {
    let mut demanded = Authentication::default();
    for host in &table.host {
        let secrets = host
            .secret_files
            .iter()
            .filter_map(|file| secret(file, directory, finder))
            .collect::<Vec<_>>();
        match &host.nqn {
            None => demanded.others.extend(secrets),
            Some(text) => {
                let Some(nqn) = finder.take(text.place(), parse_nqn(text)) else { continue };
                if demanded.hosts.insert(nqn, secrets).is_some() {
                    finder.add(
                        text.place(),
                        format!(
                            "the host {} is there twice: give it all its secret_files at once",
                            **text
                        ),
                    );
                }
            }
        }
    }
    demanded.controller =
        table.ctrl_secret_file.as_ref().and_then(|file| secret(file, directory, finder));
    if let Some(file) = &table.ctrl_secret_file {
        finder.take(
            file.place(),
            check_distinct(demanded.all_secrets(), demanded.controller.as_ref()),
        );
    }
    some(&table.hashes, &mut demanded.hashes, parse_hash, finder);
    some(&table.dhgroups, &mut demanded.groups, parse_group, finder);
    demanded
}

fn secret(file: &At<PathBuf>, directory: &Path, finder: &mut Finder<'_>) -> Option<DhchapSecret> {
    finder.take(file.place(), read(&beside(directory, file)))
}

/// Takes what is given, if something is.
fn some<T>(
    given: &[Text],
    to: &mut Vec<T>,
    parse: impl Fn(&str) -> Result<T, String>,
    finder: &mut Finder<'_>,
) {
    if !given.is_empty() {
        *to = given.iter().filter_map(|text| finder.take(text.place(), parse(text))).collect();
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::read;
    use std::path::Path;
    use weft_proto::nvme::auth::{DhchapSecret, Group};

    const HEAD: &str = "listen = [\"127.0.0.1:4420\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example.weft:one\"\n[subsystem.authentication]\n";

    #[test]
    fn hosts_have_secrets_in_files() {
        let directory =
            std::env::temp_dir().join(format!("weft-authentication-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        for (name, byte) in [("old", 1), ("new", 2), ("own", 3)] {
            let text = DhchapSecret::of_key(&[byte; 32], None).unwrap().text();
            crate::secret::create_private(&directory.join(name), &text).unwrap();
        }
        let hosts = "dhgroups = [\"ffdhe3072\", \"null\"]\nctrl_secret_file = \"own\"\n[[subsystem.authentication.host]]\n\
                     nqn = \"nqn.2026-01.example.host:one\"\nsecret_files = [\"new\", \"old\"]\n";
        let desired = read(&format!("{HEAD}{hosts}"), "test", &directory).unwrap();
        let demanded = desired.subsystems[0].authentication.as_ref().unwrap();
        assert_eq!((demanded.hosts.values().next().unwrap().len(), demanded.others.len()), (2, 0));
        assert!(
            demanded.controller.is_some() && demanded.groups == [Group::Ffdhe3072, Group::Null]
        );
        let shared = format!("{HEAD}{}", hosts.replace("\"own\"", "\"old\""));
        let found = read(&shared, "test", &directory).unwrap_err().lines().to_vec();
        assert!(found.len() == 1 && found[0].contains("make another one"), "{found:?}");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn mistakes_are_found_where_they_are() {
        let lines = |more: &str| {
            read(&format!("{HEAD}{more}"), "test", Path::new("/nonexistent"))
                .unwrap_err()
                .lines()
                .to_vec()
        };
        assert!(
            lines("hashes = [\"md5\"]")[0].contains("test:5:11: there is no hash function \"md5\""),
            "{:?}",
            lines("hashes = [\"md5\"]")
        );
        let file = lines("[[subsystem.authentication.host]]\nsecret_files = [\"x\"]");
        assert!(file[0].contains("cannot read the secret in /nonexistent/x"), "{file:?}");
    }
}
