//! Draws the table and the report of a study again from its `results.json`: `cargo run -p
//! weft-bench --example report -- results.json report.html`.

use std::error::Error;
use std::{env, fs};
use weft_bench::{report, results::Results, table};

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = env::args().skip(1).collect();
    let [from, to] = names.as_slice() else {
        return Err("usage: report RESULTS.json REPORT.html".into());
    };
    let results: Results = serde_json::from_slice(&fs::read(from)?)?;
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    print!("{}", table::render(&results, columns));
    fs::write(to, report::html(&results))?;
    Ok(())
}
