//! The percentiles of latencies that a report shows.

/// fio's percentiles.
pub const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The percentiles of latencies that a report shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles {
    /// `percentile_list`, in ascending order.
    pub list: Vec<f64>,
    /// `slat_percentiles`: show those of the submission.
    pub submission: bool,
    /// `clat_percentiles`: show those of the completion.
    pub completion: bool,
    /// `lat_percentiles`: show those of both together. Unlike in fio, JSON has them by default.
    pub total: bool,
}

impl Default for Percentiles {
    fn default() -> Self {
        Self { list: PERCENTILES.to_vec(), submission: false, completion: true, total: true }
    }
}
