//! A configuration to begin with, and the schema of all.

use super::source_options::{SourceOptions, describe};
use super::tables::ConfigFile;

/// A configuration with comments.
pub const EXAMPLE: &str = include_str!("data/example.toml");

/// The JSON schema of configurations.
pub fn schema(options: &dyn SourceOptions) -> serde_json::Value {
    let mut schema = schemars::schema_for!(ConfigFile);
    schema.insert("title".to_owned(), "weft.toml".into());
    let mut schema = schema.to_value();
    describe(&mut schema, options);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{TwoOptions, read};
    use std::path::Path;
    use weft_proto::nvme::auth::{InterchangeKey, Secret};

    /// With all that is in comments taken out of them, except where that names files.
    fn without_comments() -> String {
        let line = |line: &str| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') || rest.split(' ').nth(1) == Some("=") => {
                rest.to_owned()
            }
            _ => line.to_owned(),
        };
        EXAMPLE
            .lines()
            .map(|text| line(text) + "\n")
            .filter(|text| !text.contains(".pem") && !text.contains(".key"))
            .collect()
    }

    #[test]
    fn the_example_is_right() {
        let desired = read(EXAMPLE, "example", Path::new("")).unwrap();
        assert_eq!(desired.subsystems[0].namespaces[0].source, "ram:64MiB");
    }

    #[test]
    fn so_is_what_it_has_in_comments() {
        let directory = std::env::temp_dir().join(format!("weft-example-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        crate::secret::create_private(&directory.join("alice.secret"), "0123456789abcdef").unwrap();
        for (file, byte) in [("host1.secret", 1), ("disks.secret", 2)] {
            let secret = Secret::of_key(&[byte; 32], None).unwrap();
            crate::secret::create_private(&directory.join(file), &secret.text()).unwrap();
        }
        let key = InterchangeKey::of_key(&[1; 32], None).unwrap();
        crate::secret::create_private(&directory.join("keys"), &key.text()).unwrap();
        let desired = read(&without_comments(), "example", &directory);
        std::fs::remove_dir_all(&directory).unwrap();
        let desired =
            desired.unwrap_or_else(|faults| panic!("{:?}\n{}", faults.lines(), without_comments()));
        assert_eq!(desired.subsystems[0].namespaces.len(), 2);
        assert_eq!(desired.iscsi.chap.len(), 1);
        assert_eq!(desired.subsystems[0].authentication.as_ref().unwrap().hosts.len(), 1);
        assert_eq!(
            (desired.limits[0].limit.operations, desired.limits[0].limit.bytes),
            (10_000, 100_000_000)
        );
        assert_eq!((desired.cntlids, desired.shared), (Some((1, 1000)), true));
        assert_eq!(desired.connect, ["--io-timeout=30s", "--keep-alive-tmo=5"]);
    }

    #[test]
    fn the_schema_knows_every_key() {
        let text = schema(&TwoOptions).to_string();
        let keys = without_comments();
        let keys =
            keys.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.trim());
        for key in keys.filter(|key| !key.starts_with('#')) {
            assert!(text.contains(&format!("\"{key}\":")), "{key}");
        }
        assert!(text.contains("Namespace identifier, from 1"), "it has descriptions");
    }
}
