//! The part of the device that a job uses, and how much it transfers there: the options in addition
//! to `offset` and `size`.

use super::steps::Zones;
use super::values::Size;

/// The extent of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobExtent {
    /// `offset=50%`: the start of the region as a percentage of the device, instead of a number of
    /// bytes.
    pub offset_percent: Option<u8>,
    /// `offset_increment=10%`: the distance between the regions of successive jobs, in percent.
    pub increment_percent: Option<u8>,
    /// `offset_align`: a start that is given as a percentage is moved up to a multiple of this; by
    /// default of the size of an operation.
    pub offset_align: Option<u64>,
    /// `offset_end=60%`: the end of the region as a percentage of the device, instead of a size.
    /// Not an option of fio.
    pub end_percent: Option<u8>,
    /// `filesize`: least and most bytes of the device that are used, from its start on. A larger or
    /// smaller device counts as one of a random size between them. `size` is then the bytes to
    /// transfer.
    pub filesize: Option<(u64, u64)>,
    /// `io_size`: bytes to transfer, or a percentage of the region.
    pub io_size: Option<Size>,
    /// `loops`: how often all that is repeated.
    pub loops: u32,
    /// `zonemode=strided`.
    pub zones: Option<Zones>,
}

impl Default for JobExtent {
    fn default() -> Self {
        Self {
            offset_percent: None,
            increment_percent: None,
            offset_align: None,
            end_percent: None,
            filesize: None,
            io_size: None,
            loops: 1,
            zones: None,
        }
    }
}
