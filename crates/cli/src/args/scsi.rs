//! Options for the names of a logical unit.

use clap::Args;
use weft_server::served::scsi_names::ScsiNames;

/// Names by which iSCSI initiators identify a disk.
#[derive(Args, Debug)]
pub struct ScsiArgs {
    /// Unit serial number for iSCSI initiators [default: that of the source, or of the UUID]
    #[arg(long)]
    scsi_serial: Option<String>,
    /// Vendor for iSCSI initiators [default: weft]
    #[arg(long)]
    scsi_vendor: Option<String>,
    /// Product for iSCSI initiators [default: the model of the source]
    #[arg(long)]
    scsi_product: Option<String>,
    /// NAA identifier for iSCSI initiators, 16 or 32 hexadecimal digits [default: of the UUID]
    #[arg(long)]
    scsi_naa: Option<String>,
    /// T10 vendor ID based designator for iSCSI initiators [default: vendor, product and serial
    /// number]
    #[arg(long)]
    scsi_t10_id: Option<String>,
}

impl From<ScsiArgs> for ScsiNames {
    fn from(args: ScsiArgs) -> Self {
        Self {
            serial: args.scsi_serial,
            vendor: args.scsi_vendor,
            product: args.scsi_product,
            naa: args.scsi_naa,
            t10_id: args.scsi_t10_id,
        }
    }
}
