//! A configuration to begin with, and the schema of all.

use super::source_options::{SourceOptions, describe};

/// A configuration with comments.
pub const EXAMPLE: &str = include_str!("data/example.toml");

/// The JSON schema of [`ConfigFile`](super::tables::ConfigFile), without the options of
/// connections.
const TABLES: &str = include_str!("data/schema.json");

/// The JSON schema of configurations.
pub fn schema(options: &dyn SourceOptions) -> serde_json::Value {
    // The tests read it, so this is never null.
    let mut schema = serde_json::from_str(TABLES).unwrap_or_default();
    describe(&mut schema, options);
    schema
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::tables::ConfigFile;
    use crate::config::tests::{TwoOptions, read};
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use std::borrow::Cow;
    use std::path::Path;
    use weft_proto::nvme::auth::{DhchapSecret, InterchangeKey};

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
            let secret = DhchapSecret::of_key(&[byte; 32], None).unwrap();
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
        let queues = desired.subsystems[0].numbers.queues.map(std::num::NonZeroU16::get);
        assert_eq!((desired.connections, queues), (4096, Some(128)));
        assert_eq!(desired.connect, ["--io-timeout=30s", "--keep-alive-tmo=5"]);
    }

    /// The table of the options of connections, without these.
    pub struct ConnectTable;

    impl JsonSchema for ConnectTable {
        fn schema_name() -> Cow<'static, str> {
            "ConnectTable".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "object", "additionalProperties": false, "properties": {}})
        }
    }

    /// The types that read a configuration have the descriptions, and the program has the text.
    #[test]
    fn the_schema_is_that_of_what_is_accepted() {
        let mut schema = schemars::schema_for!(ConfigFile);
        schema.insert("title".to_owned(), "weft.toml".into());
        let (schema, committed) = (schema.to_value(), serde_json::from_str(TABLES).ok());
        if committed.as_ref() != Some(&schema) {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/data/schema.json");
            weft_testing::committed::outdated(file, &format!("{schema:#}\n"));
        }
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
