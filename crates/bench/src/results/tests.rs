//! The schema of results.

use super::{JSON_SCHEMA, Results, SCHEMA};
use serde_json::Value;
use weft_load::stats::median;

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

/// A source's ratio for all of its patterns is compared with the median of all workloads.
#[test]
fn a_summary_is_compared_with_all_workloads() {
    let text = include_str!("../../../../docs/study/reports/protocols/results.json");
    let results = crate::compare::read("results.json", text).unwrap();
    let summary = results.published.iter().find(|it| it.workload.is_none()).unwrap();
    let initiator =
        |lane: &str, workload: &str| results.row(lane, workload).unwrap().initiator.total_ns();
    let names = results.workloads.iter().map(|it| it.name.as_str());
    let mut ratios: Vec<f64> =
        names.map(|name| initiator("nvme+tcp", name) / initiator("iscsi", name)).collect();
    assert!(ratios.len() > 1 && ratios.iter().any(|ratio| *ratio != ratios[0]));
    assert_eq!(summary.here(&summary.figures[1], &results), Some(median(&mut ratios)));
    assert_eq!(summary.here(&summary.figures[0], &results), None, "that is the reference");
}
