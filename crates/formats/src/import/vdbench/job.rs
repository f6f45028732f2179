//! The job of a workload on one storage.

use super::super::{ImportError, ImportedJob};
use super::lines::Definition;
use super::reader::{Choice, Reader};
use weft_block::units::parse_size;

impl Reader<'_> {
    pub(super) fn job(
        &self,
        rd: &Definition,
        wd: &Definition,
        sd: &Definition,
        choice: &Choice,
    ) -> Result<ImportedJob, ImportError> {
        let mut job = ImportedJob::default();
        let percent = |name: &str, chosen: &Option<String>| -> Result<u8, ImportError> {
            let text = chosen.as_deref().or(wd.one(name)).unwrap_or("100");
            let value = match text {
                "random" => Some(100),
                "seq" | "sequential" | "eof" | "seqnz" => Some(0),
                text => text.parse().ok().filter(|percent| *percent <= 100),
            };
            value.ok_or_else(|| self.wrong(wd.at, format!("{name}={text} is not a percentage")))
        };
        let (reads, seeks) =
            (percent("rdpct", &choice.rdpct)?, percent("seekpct", &choice.seekpct)?);
        let pattern = match (seeks > 0, reads) {
            (true, 100) => "randread",
            (true, 0) => "randwrite",
            (true, _) => "randrw",
            (false, 100) => "read",
            (false, 0) => "write",
            (false, _) => "rw",
        };
        job.set("name", format!("{}-{}-{}", rd.name, wd.name, sd.name));
        job.set("rw", pattern);
        if !matches!(reads, 0 | 100) {
            job.set("rwmixread", reads.to_string());
        }
        if seeks > 0 {
            job.set("norandommap", "1");
        }
        if !matches!(seeks, 0 | 100) {
            job.set("percentage_random", seeks.to_string());
        }
        self.sizes(&mut job, wd, choice)?;
        let threads =
            choice.threads.as_deref().or(wd.one("threads")).or(sd.one("threads")).unwrap_or("8");
        job.set("iodepth", threads);
        job.set("runtime", rd.one("elapsed").unwrap_or("30"));
        // A sequential run may end with the disk.
        let to_end = choice.seekpct.as_deref().or(wd.one("seekpct")) == Some("eof");
        job.set("time_based", u8::from(!to_end).to_string());
        if let Some(warmup) = rd.one("warmup") {
            job.set("ramp_time", warmup);
        }
        if let Some(align) = sd.one("align").filter(|_| seeks > 0) {
            job.set("blockalign", align);
        }
        self.flags(&mut job, [rd, wd, sd])?;
        self.place(&mut job, wd, sd)?;
        Ok(job)
    }

    /// `openflags`: of the run, else of the workload, else of the storage.
    fn flags(&self, job: &mut ImportedJob, from: [&Definition; 3]) -> Result<(), ImportError> {
        let given = from.iter().find_map(|of| of.get("openflags").map(|flags| (of.at, flags)));
        let Some((at, flags)) = given else { return Ok(()) };
        let mut direct = false;
        for flag in flags {
            match flag.as_str() {
                "o_direct" | "directio" => direct = true,
                "o_sync" | "o_dsync" | "sync" => job.set("sync", "dsync"),
                "fsync" => job.set("end_fsync", "1"),
                other => {
                    let problem = format!(
                        "openflags={other} is not supported: use o_direct, directio, o_sync, o_dsync or fsync"
                    );
                    return Err(self.wrong(at, problem));
                }
            }
        }
        job.set("direct", u8::from(direct).to_string());
        Ok(())
    }

    /// Sets the storage, and the part of it that is read and written.
    fn place(
        &self,
        job: &mut ImportedJob,
        wd: &Definition,
        sd: &Definition,
    ) -> Result<(), ImportError> {
        job.target = sd.one("lun").map(str::to_owned);
        if job.target.is_none() {
            return Err(self.wrong(sd.at, format!("sd={} has no lun", sd.name)));
        }
        let (size, offset) = (sd.one("size"), sd.one("offset"));
        let Some((at, range)) = [wd, sd].iter().find_map(|of| Some((of.at, of.get("range")?)))
        else {
            if let Some(size) = size {
                job.set("size", size);
            }
            if let Some(offset) = offset {
                job.set("offset", offset);
            }
            return Ok(());
        };
        let [begin, end] = range else {
            return Err(self.wrong(at, "range=(from,to) has two values"));
        };
        if offset.is_some() {
            return Err(self.wrong(at, "range= with offset= is not supported: use one of them"));
        }
        self.range(job, at, size, [begin, end])
    }

    /// `range`: percentages of the storage, or bytes.
    fn range(
        &self,
        job: &mut ImportedJob,
        at: usize,
        size: Option<&str>,
        [begin, end]: [&String; 2],
    ) -> Result<(), ImportError> {
        let wrong = |problem: String| self.wrong(at, problem);
        let percent = |text: &str| text.parse::<u64>().ok().filter(|percent| *percent <= 100);
        let bytes = |text: &str| parse_size(text).map_err(|e| wrong(e.to_string()));
        match (percent(begin), percent(end), size) {
            (Some(from), Some(to), _) if from >= to => {
                Err(wrong(format!("range=({begin},{end}) is empty")))
            }
            (Some(from), Some(to), None) => {
                job.set("offset", format!("{from}%"));
                job.set("offset_end", format!("{to}%"));
                Ok(())
            }
            (Some(from), Some(to), Some(size)) => {
                let size = bytes(size)?;
                let part = |percent: u64| (u128::from(size) * u128::from(percent) / 100) as u64;
                // In whole blocks of any size.
                let (from, to) = (part(from).next_multiple_of(1 << 20), part(to));
                if from >= to {
                    let of = format!("range=({begin},{end}) of {size} bytes");
                    return Err(wrong(format!("{of} holds no whole MiB")));
                }
                job.set("offset", from.to_string());
                job.set("size", (to - from).to_string());
                Ok(())
            }
            _ => {
                let (from, to) = (bytes(begin)?, bytes(end)?);
                let size = to.checked_sub(from).filter(|size| *size > 0);
                let size = size.ok_or_else(|| wrong(format!("range=({begin},{end}) is empty")))?;
                job.set("offset", from.to_string());
                job.set("size", size.to_string());
                Ok(())
            }
        }
    }

    /// Sizes of operations.
    fn sizes(
        &self,
        job: &mut ImportedJob,
        wd: &Definition,
        choice: &Choice,
    ) -> Result<(), ImportError> {
        match (&choice.xfersize, wd.get("xfersize").unwrap_or_default()) {
            (Some(size), _) => job.set("bs", &**size),
            (None, []) => job.set("bs", "4k"),
            (None, [size]) => job.set("bs", &**size),
            // (4k,70,64k,30): sizes with their percentages.
            (None, sizes) if sizes.len().is_multiple_of(2) => {
                let split: Vec<String> =
                    sizes.chunks(2).map(|pair| format!("{}/{}", pair[0], pair[1])).collect();
                job.set("bssplit", split.join(":"));
            }
            // (4k,64k,4k): sizes between two, in steps.
            (None, [least, most, step]) if least == step => {
                job.set("bsrange", format!("{least}-{most}"));
            }
            (None, sizes) => {
                let text = format!(
                    "xfersize=({}): sizes between two are supported in steps of the first only",
                    sizes.join(",")
                );
                return Err(self.wrong(wd.at, text));
            }
        }
        Ok(())
    }
}
