//! Parameter files as users of vdbench write them.

use super::*;

fn options(job: &ImportedJob) -> Vec<String> {
    job.options.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

const PARAMETERS: &str = "\
* storage
sd=default,openflags=o_direct,threads=16
sd=sd1,lun=/dev/sdb the first
sd=sd2,lun=/dev/sdc,size=10g
wd=wd1,sd=sd*,xfersize=4k,
   rdpct=70
wd=wd2,sd=sd1,xfersize=(4k,70,64k,30),seekpct=0,rhpct=0
rd=mixed,wd=wd1,iorate=max,elapsed=60,interval=1,warmup=5,forthreads=(1,32),forrdpct=(0,100)
rd=steady,wd=wd2,iorate=5000,elapsed=30
";

#[test]
fn parameter_files_become_runs() {
    let imported = import("parm", PARAMETERS).unwrap();
    assert_eq!(imported.groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 2, 1]);
    let first = &imported.groups[0][1];
    assert_eq!(first.target.as_deref(), Some("/dev/sdc"));
    assert_eq!(
        options(first),
        [
            "name=mixed-wd1-sd2",
            "rw=randwrite",
            "norandommap=1",
            "bs=4k",
            "iodepth=1",
            "runtime=60",
            "time_based=1",
            "ramp_time=5",
            "direct=1",
            "size=10g"
        ]
    );
    assert_eq!(
        (imported.groups[1][0].get("iodepth"), imported.groups[2][0].get("rw")),
        (Some("32"), Some("randread"))
    );
    let steady = &imported.groups[4][0];
    let all = [
        "rw=read",
        "bssplit=4k/70:64k/30",
        "iodepth=16",
        "rate_total_iops=5000",
        "rate_process=poisson",
    ];
    all.iter().for_each(|option| {
        assert!(options(steady).iter().any(|it| it == option), "{option}: {steady:?}")
    });
    let left = "interval=1 (the report has the distribution of latencies)";
    assert_eq!(imported.without, [left]);
}

/// The first job of a file with these lines behind an `sd=s` and a `wd=w`.
fn first(lines: &str) -> ImportedJob {
    let text = format!("sd=s,lun=/x\nsd=t,lun=/y\n{lines}\n");
    import("parm", &text).unwrap_or_else(|e| panic!("{lines}: {e}")).groups[0][0].clone()
}

#[test]
fn only_the_named_storage_and_part_of_it_is_used() {
    let targets = |lines: &str| {
        let text = format!("sd=s,lun=/x\nsd=t,lun=/y\nsd=u,lun=/z\n{lines}\n");
        let group = import("parm", &text).unwrap().groups.remove(0);
        group.into_iter().filter_map(|job| job.target).collect::<Vec<_>>()
    };
    assert_eq!(targets("wd=w\nrd=r,wd=w,sd=t"), ["/y"]);
    assert_eq!(targets("wd=w,sd=(s,t)\nrd=r,wd=w,sd=u"), ["/z"]);
    assert_eq!(targets("wd=w,sd=(s,t)\nrd=r,wd=w"), ["/x", "/y"]);
    for (lines, offset, end) in [
        ("wd=w,range=(40,60)\nrd=r,wd=w", "40%", "60%"),
        ("sd=v,lun=/v,range=(10,20)\nwd=w,sd=v\nrd=r,wd=w", "10%", "20%"),
    ] {
        let job = first(lines);
        let placed = ["offset", "offset_end", "size"].map(|name| job.get(name));
        assert_eq!(placed, [Some(offset), Some(end), None], "{lines}");
    }
    for (lines, offset, size) in [
        ("wd=w,range=(1m,3m)\nrd=r,wd=w", "1048576", "2097152"),
        ("sd=v,lun=/v,size=100m\nwd=w,sd=v,range=(10,20)\nrd=r,wd=w", "10485760", "10485760"),
    ] {
        let job = first(lines);
        assert_eq!((job.get("offset"), job.get("size")), (Some(offset), Some(size)), "{lines}");
    }
}

#[test]
fn workloads_are_what_was_asked_for() {
    for (lines, expected) in [
        ("wd=w,seekpct=30\nrd=r,wd=w", "percentage_random=30"),
        ("wd=w,seekpct=eof\nrd=r,wd=w", "time_based=0"),
        ("wd=w,xfersize=(4k,64k,4k)\nrd=r,wd=w", "bsrange=4k-64k"),
        ("wd=w,openflags=(o_direct,o_dsync)\nrd=r,wd=w", "sync=dsync"),
        ("wd=w,sd=s\nrd=r,wd=w,maxdata=1g", "io_size=1g"),
        ("wd=w,sd=s,iorate=50\nrd=r,wd=w", "rate_total_iops=50"),
        ("wd=w,sd=s,skew=30\nrd=r,wd=w,iorate=1000", "rate_total_iops=300"),
        ("wd=w,sd=s\nwd=x,sd=s\nrd=r,wd=(w,x),iorate=1000", "rate_total_iops=500"),
        ("sd=v,lun=/v,align=4k\nwd=w,sd=v\nrd=r,wd=w", "blockalign=4k"),
    ] {
        let job = first(lines);
        assert!(options(&job).iter().any(|it| it == expected), "{lines}: {job:?}");
    }
    let steady = first("wd=w,sd=s\nrd=r,wd=w,iorate=10,distribution=deterministic");
    assert_eq!(steady.get("rate_process"), None);
    let text = "sd=s,lun=/x\nwd=w\nrd=r,wd=w,iorate=(100-300,100)\n";
    let rates: Vec<_> = import("parm", text).unwrap().groups.into_iter().flatten().collect();
    let rates: Vec<_> = rates.iter().filter_map(|job| job.get("rate_total_iops")).collect();
    assert_eq!(rates, ["100", "200", "300"]);
}

#[test]
fn what_is_wrong_or_refused_is_named() {
    let with = |line: &str| format!("sd=s,lun=/x\nwd=w,sd=s\n{line}\n");
    for (text, part) in [
        (with("rd=r,wd=none"), "parm:3: there is no wd=none"),
        (with("rd=r,wd=w,sd=none"), "there is no sd=none"),
        (with("rd=r,wd=w,forthreads=(1,2"), "ends with )"),
        (with("rd=r,wd=w,forrdpct=200"), "percentage"),
        (with("rd=r,wd=w,iorate=fast"), "operations per second"),
        (with("rd=r,wd=w,iorate=curve"), "iorate=curve is not supported"),
        (with("rd=r,wd=w,forrhpct=50"), "forrhpct=50 is not supported"),
        (with("rd=r,wd=w,elapzed=50"), "elapzed=50: vdbench has no parameter"),
        (with("nothing"), "name=value"),
        (with("fsd=f,anchor=/d"), "file systems"),
        (with("validate=yes\nrd=r,wd=w"), "validate=yes is not supported"),
        (with("include=other\nrd=r,wd=w"), "include=other is not supported"),
        (with("hd=one,system=host1\nrd=r,wd=w"), "system=host1 is not supported"),
        ("sd=s,size=1\nwd=w\nrd=r\n".to_owned(), "no lun"),
        ("sd=s,lun=/x\nwd=w,xfersize=(4k,64k,8k)\nrd=r\n".to_owned(), "steps of the first"),
        ("sd=s,lun=/x\nwd=w,rhpct=50\nrd=r\n".to_owned(), "rhpct=50 is not supported"),
        ("sd=s,lun=/x,count=(1,8)\nwd=w\nrd=r\n".to_owned(), "count=1,8 is not supported"),
        ("sd=s,lun=/x,openflags=o_what\nwd=w\nrd=r\n".to_owned(), "openflags=o_what"),
        ("sd=s,lun=/x\nwd=w,range=(60,40)\nrd=r\n".to_owned(), "is empty"),
        ("sd=s,lun=/x,size=1m\nwd=w,range=(10,20)\nrd=r\n".to_owned(), "no whole MiB"),
        ("sd=s,lun=/x\nwd=w,sd=s,skew=30\nwd=x\nrd=r,wd=(w,x)\n".to_owned(), "skew=30 needs"),
        (with(""), "no job"),
    ] {
        match import("parm", &text) {
            Ok(imported) => panic!("{text:?}: {imported:?}"),
            Err(error) => assert!(error.to_string().contains(part), "{text:?}: {error}"),
        }
    }
    let uniform = with("rd=r,wd=w,iorate=5,distribution=uniform");
    assert!(import("parm", &uniform).unwrap_err().to_string().contains("use exponential"));
}

#[test]
fn parameters_do_what_the_tables_say() {
    let hosts = |name: &str, value: &str| format!("hd=h,{name}={value}\nsd=s,lun=/x\nwd=w\nrd=r\n");
    let lines = |keyword: &str, name: &str, value: &str| match keyword {
        "hd" => hosts(name, value),
        "sd" => format!("sd=s,lun=/x,{name}={value}\nwd=w\nrd=r\n"),
        "wd" => format!("sd=s,lun=/x\nwd=w,{name}={value}\nrd=r\n"),
        "rd" => format!("sd=s,lun=/x\nwd=w\nrd=r,{name}={value}\n"),
        _ => format!("{name}={value}\nsd=s,lun=/x\nwd=w\nrd=r\n"),
    };
    let value = |name: &str| match name {
        "sd" => "s",
        "wd" => "w",
        "range" => "(10,90)",
        "openflags" => "o_direct",
        "distribution" => "exponential",
        _ => "7",
    };
    for (keyword, of) in [
        ("", options::GENERAL),
        ("hd", options::HD),
        ("sd", options::SD),
        ("wd", options::WD),
        ("rd", options::RD),
    ] {
        for (names, answer, _) in of {
            for name in names.split(' ') {
                let text = lines(keyword, name, value(name));
                match (answer, import("parm", &text)) {
                    (OptionSupport::Honoured, Ok(imported)) => {
                        assert!(imported.without.is_empty(), "{text}: {imported:?}");
                    }
                    (OptionSupport::LeftOut, Ok(imported)) => {
                        assert!(imported.without[0].starts_with(name), "{text}: {imported:?}");
                    }
                    (OptionSupport::Refused, Err(error)) => {
                        assert!(error.to_string().contains(name), "{text}: {error}");
                    }
                    (answer, result) => panic!("{text}: {answer:?}, {result:?}"),
                }
            }
        }
    }
}
