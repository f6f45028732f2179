//! The schema of results.

use super::{JSON_SCHEMA, Results, SCHEMA};
use serde_json::Value;

/// Joins the lines of descriptions: where a comment of the source is wrapped says nothing.
fn unwrap_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "description" => {
                        let paragraphs = text.split("\n\n").map(|text| text.replace('\n', " "));
                        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
                    }
                    _ => unwrap_descriptions(member),
                }
            }
        }
        Value::Array(members) => members.iter_mut().for_each(unwrap_descriptions),
        _ => {}
    }
}

/// The types have the descriptions, and the program, which `weft study schema` asks, has the text of
/// the documentation.
#[test]
fn the_schema_is_that_of_what_is_written() {
    let mut schema = schemars::schema_for!(Results);
    let title = format!("results.json of weft study, version {SCHEMA}");
    schema.insert("title".to_owned(), title.into());
    let (mut schema, committed) = (schema.to_value(), serde_json::from_str(JSON_SCHEMA).ok());
    unwrap_descriptions(&mut schema);
    if committed.as_ref() != Some(&schema) {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/study/results.schema.json");
        weft_testing::committed::outdated(file, &format!("{schema:#}\n"));
    }
}
