//! Reading a `results.json`, also that of an earlier weft.

use crate::error::Error;
use crate::results::{Quantity, Results, SCHEMA, SCHEMA_OF_CYCLES, SCHEMA_OLDEST};

/// Reads the content of a `results.json`. Cycles count as not measured in those that are older than
/// version 7.
///
/// # Errors
/// Another format, or another version of it than [`SCHEMA_OLDEST`] to [`SCHEMA`].
pub fn read(place: &str, text: &str) -> Result<Results, Error> {
    let wrong = |problem: String| Error::Results { place: place.to_owned(), problem };
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let schema = value["schema"]
        .as_u64()
        .ok_or_else(|| wrong("it is not a results.json of weft study".into()))?;
    if !(u64::from(SCHEMA_OLDEST)..=u64::from(SCHEMA)).contains(&schema) {
        return Err(wrong(refusal(schema)));
    }
    let mut results: Results =
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    if results.schema < SCHEMA_OF_CYCLES {
        results.relations.retain(|it| it.quantity != Quantity::Cycles);
    }
    Ok(results)
}

fn refusal(schema: u64) -> String {
    let reads = if SCHEMA_OLDEST == SCHEMA {
        SCHEMA.to_string()
    } else {
        format!("{SCHEMA_OLDEST} to {SCHEMA}")
    };
    let instead = if schema > u64::from(SCHEMA) {
        "use a newer weft"
    } else {
        "use the weft that wrote it, or measure again"
    };
    format!("its schema is {schema}, and this weft reads {reads}: {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_refused() {
        let refused = |text: &str| read("r.json", text).unwrap_err().to_string();
        for text in ["{}", "[]", "7", r#"{"schema":"4"}"#, r#"{"schema":-4}"#, r#"{"schema":4.5}"#]
        {
            assert_eq!(refused(text), "the results r.json: it is not a results.json of weft study");
        }
        assert!(refused("x").starts_with("the results r.json: "));
        let of = |schema: u64| refused(&format!("{{\"schema\":{schema}}}"));
        let (oldest, newest) = (u64::from(SCHEMA_OLDEST), u64::from(SCHEMA));
        for older in [0, 1, oldest - 1] {
            let said = of(older);
            assert!(
                said.starts_with(&format!(
                    "the results r.json: its schema is {older}, and this weft reads {oldest}"
                )),
                "{said}"
            );
            assert!(said.ends_with(": use the weft that wrote it, or measure again"), "{said}");
        }
        for newer in [newest + 1, u64::MAX] {
            let said = of(newer);
            assert!(
                said.contains(&format!("its schema is {newer}, "))
                    && said.ends_with(": use a newer weft"),
                "{said}"
            );
        }
        // These are read, and lack what makes a study.
        for read in oldest..=newest {
            assert!(of(read).contains("missing field"), "{}", of(read));
        }
    }
}
