//! The options for the payload of writes, with fio's names.

use crate::help::headings::WORKLOAD;
use clap::{Args, ValueEnum};
use weft_bench::workload::{BufferPattern, Buffers, switch};
use weft_block::units::parse_size;

/// The payload of writes; names and meanings are fio's.
#[derive(Args, Clone, Debug)]
pub struct BufferArgs {
    /// Write zeroes, instead of new random data
    #[arg(help_heading = WORKLOAD, long = "zero_buffers", alias = "zero-buffers", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    zero_buffers: bool,
    /// Write new data each time, as without this option; 0: keep the data of each buffer, and
    /// scramble it
    #[arg(help_heading = WORKLOAD, long = "refill_buffers", alias = "refill-buffers", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch)]
    refill_buffers: Option<bool>,
    /// Keep the data of each buffer, and change 24 bytes in each 512 before a write, as fio does by
    /// default; 0: change nothing
    #[arg(help_heading = WORKLOAD, long = "scramble_buffers", alias = "scramble-buffers", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch)]
    scramble_buffers: Option<bool>,
    /// Write this repeatedly: 0xHEX, a decimal number, "TEXT", 'FILE', or several in a row
    #[arg(help_heading = WORKLOAD, long = "buffer_pattern", alias = "buffer-pattern", value_name = "PATTERN", allow_hyphen_values = true)]
    buffer_pattern: Option<BufferPattern>,
    /// Percentage of each chunk that is zeroes or --buffer_pattern; the rest is random
    #[arg(help_heading = WORKLOAD, long = "buffer_compress_percentage", alias = "buffer-compress-percentage", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    buffer_compress_percentage: u8,
    /// Size of the chunks for --buffer_compress_percentage; 0: the size of an operation
    #[arg(help_heading = WORKLOAD, long = "buffer_compress_chunk", alias = "buffer-compress-chunk", default_value = "512", value_parser = chunk)]
    buffer_compress_chunk: u32,
    /// Percentage of writes that repeat the data of an earlier write
    #[arg(help_heading = WORKLOAD, long = "dedupe_percentage", alias = "dedupe-percentage", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    dedupe_percentage: u8,
    /// Data that --dedupe_percentage repeats: the last new data, or any of a working set
    #[arg(help_heading = WORKLOAD, long = "dedupe_mode", alias = "dedupe-mode", value_enum, default_value_t)]
    dedupe_mode: DedupeMode,
    /// Size of the working set, as a percentage of the region
    #[arg(help_heading = WORKLOAD, long = "dedupe_working_set_percentage", alias = "dedupe-working-set-percentage", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    dedupe_working_set_percentage: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DedupeMode {
    /// The last new data.
    #[default]
    Repeat,
    /// Any of the first new data.
    #[value(name = "working_set")]
    WorkingSet,
}

/// A size that fits into an operation.
fn chunk(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("{text} is more than any operation has"))
}

impl From<BufferArgs> for Buffers {
    fn from(args: BufferArgs) -> Self {
        let has_set = args.dedupe_mode == DedupeMode::WorkingSet;
        Self {
            zero: args.zero_buffers,
            refill: args.refill_buffers,
            scramble: args.scramble_buffers,
            pattern: args.buffer_pattern,
            compress_percent: args.buffer_compress_percentage,
            compress_chunk: args.buffer_compress_chunk,
            dedupe_percent: args.dedupe_percentage,
            working_set_percent: has_set.then_some(args.dedupe_working_set_percentage),
        }
    }
}
