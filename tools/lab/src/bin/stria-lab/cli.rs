//! `stria lab` on the command line.

use crate::replay::Replay;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;
use stria_lab::target::Amount;
use stria_terminal::size;

/// The laboratory's commands.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// List the experiments that come with the program.
    List,
    /// Show what would run, how long it takes, and what it writes; nothing is run or written.
    Plan(Plan),
    /// Run an experiment and write its page: stria lab run quick --target file:/tmp/x.img
    Run(Run),
    /// Continue an interrupted run.
    Resume(Resume),
    /// Replay a trace, or the look-alike of an application, on a file or block device, and write the page.
    Replay(Replay),
    /// Make a run from fio's own result files, and write its page.
    Import(Import),
    /// Write the page of a run again, or one page of several runs side by side.
    Report(Report),
    /// Show the load that a trace or a run puts on drives: the purpose that `stria plan --purpose` takes
    Purpose(Purpose),
    /// Show significant differences between two runs; exit code 1 if the second is worse.
    Compare(Compare),
    /// Write the tables of a run.
    Export(Export),
}

/// The options that a plan and a run share.
#[derive(Args, Debug)]
pub struct Subject {
    /// A shipped experiment (see `stria lab list`), or a TOML file.
    #[arg(value_name = "EXPERIMENT", value_hint = ValueHint::FilePath)]
    pub experiment: String,
    /// file:PATH (created if missing), a block device, or an NBD URI; of the drives below array:LEVEL:COUNT[:STRIP[:SPANS]],
    /// members:COUNT or md:LEVEL:COUNT[:STRIP][:assume-clean] (by mdadm); or
    /// model:DRIVE[@PLATFORM][:LEVEL:COUNT[:STRIP[:SPANS]]]. Repeat for more. The default is the arrays that the experiment
    /// names.
    #[arg(long, short, value_name = "TARGET")]
    pub target: Vec<String>,
    /// Measure models of this platform of `stria plan catalogue` in virtual time, instead of drives: lsi2208 (with the drives of
    /// its publication), or stria:p4510. Measured are the arrays of the experiment, or else one drive. For one model: --target
    /// model:p4510:5:4:64K.
    #[arg(long, value_name = "PLATFORM[:DRIVE]", conflicts_with_all = ["target", "drive", "pool", "host"])]
    pub on: Option<String>,
    /// Size of a created file (by default 1GiB), or of an NBD export that does not report its size.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub size: Option<u64>,
    /// A drive for arrays; repeat for more.
    #[arg(long, value_name = "DRIVE", value_hint = ValueHint::FilePath, conflicts_with = "pool")]
    pub drive: Vec<PathBuf>,
    /// Folder for the image files of arrays.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub pool: Option<PathBuf>,
    /// Size of each image file; by default 256MiB.
    #[arg(long, value_name = "SIZE", requires = "pool", value_parser = size::parse)]
    pub drive_size: Option<u64>,
    /// Run a trial: shorter, smaller, and marked as such in all results.
    #[arg(long)]
    pub scaled: bool,
    /// Run only loads that write nothing, without preparation: the target's contents do not change.
    #[arg(long)]
    pub read_only: bool,
    /// Measure each target only from this offset: a size or a percentage of the target, such as 100GiB or 25%.
    #[arg(long, value_name = "SIZE|SHARE", value_parser = Amount::parse)]
    pub offset: Option<Amount>,
    /// Measure only this part of each target, such as 100GiB or 50%; a purge covers the complete target.
    #[arg(long, value_name = "SIZE|SHARE", value_parser = Amount::parse)]
    pub share: Option<Amount>,
    /// Measure from another machine, which runs `fio --server`; HOST=/dev/nvme1n1 if the target has another name there. Repeat
    /// for several machines at once.
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Rated endurance of a drive: bytes written (TBW).
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub tbw: Option<u64>,
    /// Level of a target that is another maker's array, for theory lines.
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<String>,
    /// Number of its members.
    #[arg(long, value_name = "N", requires = "level")]
    pub members: Option<u32>,
}

/// `stria lab plan`
#[derive(Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub subject: Subject,
    /// No effect: a plan never runs anything.
    #[arg(long)]
    pub dry_run: bool,
    /// The assumed write speed of loads that run for a fixed time, in MB/s.
    #[arg(long, value_name = "MB/S", default_value_t = 500.0)]
    pub speed: f64,
}

/// `stria lab run`
#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub subject: Subject,
    /// Overwrite everything on this drive, file or export: needed for each target that the run does not create; repeat for more.
    #[arg(long, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub destroy: Vec<String>,
    /// The run's folder, which must not exist; by default lab-EXPERIMENT-1 and so on.
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// The page; by default report.html in the run's folder.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// A remark for the report.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub note: String,
    /// Description of the platform: chipset, controller, cabling.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub platform: String,
    /// Keep the created files.
    #[arg(long)]
    pub keep: bool,
    /// Afterwards run the same experiment on the models of these drives, show the models' errors, and store them for `stria plan
    /// advise --calibrated`: p4510, p4510@p4510-md.
    #[arg(long, value_name = "DRIVE[@PLATFORM]", conflicts_with = "on")]
    pub verify_plan: Option<String>,
}

/// `stria lab resume`
#[derive(Args, Debug)]
pub struct Resume {
    /// The run's folder.
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// Overwrite everything on this drive, file or export. A run's folder cannot give this permission, so it is needed again;
    /// repeat for more.
    #[arg(long, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub destroy: Vec<String>,
    /// Contact this export over the network, as the run did; needed again, too. Repeat for several.
    #[arg(long, short, value_name = "URI")]
    pub target: Vec<String>,
    /// Measure from this machine, as the run did; needed again, too. Repeat for several.
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
}

/// `stria lab import`
#[derive(Args, Debug)]
pub struct Import {
    /// An output file of fio --output-format=json (or json+), or a folder with such files at any depth, as bench-fio writes them.
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required = true)]
    pub from: Vec<PathBuf>,
    /// Name of the measured target, for the report.
    #[arg(long, short, value_name = "NAME")]
    pub target: String,
    /// A remark for the report.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub note: String,
    /// The run's folder, which must not exist; by default lab-import-1 and so on.
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// `stria lab report`
#[derive(Args, Debug)]
pub struct Report {
    /// The run's folder. With several folders, one page compares each run with the first.
    #[arg(value_hint = ValueHint::DirPath, value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The page; by default report.html in the run's folder, or together.html in this folder for several runs.
    #[arg(long, short, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Also write each chart to a file in this folder, named after its section and caption.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub charts: Option<PathBuf>,
    /// Format of these files.
    #[arg(long, default_value = "svg", requires = "charts")]
    pub format: Picture,
    /// Draw light lines on a dark background.
    #[arg(long, requires = "charts")]
    pub dark: bool,
}

/// Formats of charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Picture {
    /// Vectors; loads nothing else.
    Svg,
    /// Pixels, three times the size of the SVG; needs a font on this machine.
    Png,
}

/// `stria lab purpose`
#[derive(Args, Debug)]
pub struct Purpose {
    /// A trace, with its format in front if that is ambiguous (msr:trace.csv.gz), or a run's folder
    #[arg(value_hint = ValueHint::AnyPath, value_name = "TRACE|RUN")]
    pub from: String,
}

/// `stria lab compare`
#[derive(Args, Debug)]
pub struct Compare {
    /// The folders of the runs before and after. With several runs on each side: all before, then --, then all after.
    #[arg(value_hint = ValueHint::DirPath, value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The other side, after --.
    #[arg(value_hint = ValueHint::DirPath, value_name = "RUN", last = true)]
    pub others: Vec<PathBuf>,
    /// Also write a page with both side by side.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// `stria lab export`
#[derive(Args, Debug)]
pub struct Export {
    /// The run's folder. With several folders, the first column of the tables names the run.
    #[arg(value_hint = ValueHint::DirPath, value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Format of the tables.
    #[arg(long, default_value = "csv")]
    pub format: Format,
    /// Folder for the tables; by default a folder named after the format in the (first) run's folder.
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// Formats of tables.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// Text.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// A spreadsheet for LibreOffice and others, with a sheet for each table.
    Ods,
}
