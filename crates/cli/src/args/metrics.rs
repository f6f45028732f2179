//! `--metrics`.

use clap::Args;
use std::path::PathBuf;
use weft_server::metrics::MetricsConfig;

/// Options of the metrics.
#[derive(Args, Clone, Debug, Default)]
pub struct MetricsArgs {
    /// Answer Prometheus at http://ADDR:PORT/metrics; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", help_heading = "Metrics")]
    metrics: Option<String>,
    /// File with the token that a scrape has to show ("Authorization: Bearer …"); needed for
    /// addresses other than the loopback
    #[arg(long, value_name = "FILE", requires = "metrics", help_heading = "Metrics")]
    metrics_token_file: Option<PathBuf>,
}

impl MetricsArgs {
    /// The configuration that they ask for.
    pub fn config(&self) -> MetricsConfig {
        MetricsConfig { listen: self.metrics.clone(), token_file: self.metrics_token_file.clone() }
    }
}
