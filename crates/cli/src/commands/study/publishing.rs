//! The files of a report, and the table on the terminal.

use crate::exit::Failure;
use crate::table::terminal_width;
use clap::{Args, ValueEnum};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use weft_bench::report::{self, Letters};
use weft_bench::results::Results;
use weft_bench::table;
use weft_io::output;

/// Where the files go, and which.
#[derive(Args, Debug)]
pub struct Publishing {
    /// Directory for report.html and results.json
    #[arg(long, default_value = ".")]
    output_dir: PathBuf,
    /// Further files next to report.html and results.json: report.md, results.csv, a .svg or a .png
    /// for each chart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMATS")]
    also: Vec<Format>,
}

/// A further file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Words and tables, for issues and documents
    Markdown,
    /// All rows, for spreadsheets
    Csv,
    /// Each chart by itself
    Svg,
    /// Each chart as a picture, in light colours; takes a font of the system [needs: a build with
    /// --features full]
    Png,
}

/// The means to write the files, checked before anything is measured, as a study may take an
/// hour.
pub struct Publisher<'a> {
    wanted: &'a Publishing,
    letters: Option<Letters>,
}

impl Publishing {
    /// Checks that the files can be written, and looks for letters if pictures are wanted.
    pub fn prepare(&self) -> Result<Publisher<'_>, Failure> {
        writable(&self.output_dir)?;
        let letters =
            if self.also.contains(&Format::Png) { Some(Letters::of_the_system()?) } else { None };
        Ok(Publisher { wanted: self, letters })
    }
}

impl Publisher<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.wanted.output_dir.join(name)
    }

    /// Writes report and results, and prints the table.
    pub fn publish(&self, results: &Results) -> Result<(), Failure> {
        let data = self.path("results.json");
        let json = results.to_json()?;
        write(&data, format!("{json}\n"))?;
        let page = self.report(results)?;
        let mut out = std::io::stdout().lock();
        let width = if out.is_terminal() { terminal_width() } else { None };
        writeln!(out, "{}", table::render(results, width))?;
        writeln!(out, "Report: {}\nData:   {}", page.display(), data.display())?;
        Ok(())
    }

    /// Writes the report, and the further files. Returns the place of the report.
    pub fn report(&self, results: &Results) -> Result<PathBuf, Failure> {
        let (page, also) = (self.path("report.html"), &self.wanted.also);
        write(&page, report::html(results))?;
        if also.contains(&Format::Markdown) {
            write(&self.path("report.md"), report::markdown(results))?;
        }
        if also.contains(&Format::Csv) {
            write(&self.path("results.csv"), report::csv(results))?;
        }
        if also.contains(&Format::Svg) {
            report::charts(results)
                .iter()
                .try_for_each(|(name, chart)| write(&self.path(&format!("{name}.svg")), chart))?;
        }
        if let Some(letters) = &self.letters {
            let pictures = report::pictures(results, letters)?;
            pictures.iter().try_for_each(|(name, picture)| {
                write(&self.path(&format!("{name}.png")), picture)
            })?;
        }
        Ok(page)
    }
}

/// Checks that files can be written there.
fn writable(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::metadata(dir))
        .and_then(|facts| {
            if facts.permissions().readonly() {
                Err(std::io::ErrorKind::PermissionDenied.into())
            } else {
                Ok(())
            }
        })
        .map_err(|e| cannot_write(dir, e))
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    output::write(path, content).map_err(|e| cannot_write(path, e))
}

fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
    weft_block::Error::io(
        format!(
            "cannot write {}: {error}; choose another directory with --output-dir",
            path.display()
        ),
        error,
    )
    .into()
}
