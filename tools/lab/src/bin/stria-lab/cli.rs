//! `stria lab` on the command line.

use crate::replay::Replay;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;
use stria_lab::target::Amount;
use stria_terminal::size;

/// The laboratory's commands.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// The experiments that come with the program.
    List,
    /// Show what would run, how long it takes, and what it writes; touch nothing.
    Plan(Plan),
    /// Run an experiment and write its page: stria lab run quick --target file:/tmp/x.img
    Run(Run),
    /// Go on with a run that was interrupted.
    Resume(Resume),
    /// Replay a trace, or the look-alike of an application, on a file or block device, and write the page.
    Replay(Replay),
    /// Make a run of results that fio wrote by itself, and write its page.
    Import(Import),
    /// Write the page of a run again, or one page of several runs side by side.
    Report(Report),
    /// Show what a trace or a run asks of drives: the purpose that `stria plan --purpose` takes
    Purpose(Purpose),
    /// Show what differs significantly between two runs; exit code 1 if the second is worse.
    Compare(Compare),
    /// Write the tables of a run.
    Export(Export),
}

/// What is measured, and how.
#[derive(Args, Debug)]
pub struct Subject {
    /// A shipped experiment (see `stria lab list`), or a TOML file.
    #[arg(value_name = "EXPERIMENT", value_hint = ValueHint::FilePath)]
    pub experiment: String,
    /// file:PATH (made if it is not there), a block device, an NBD URI, or array:LEVEL:COUNT[:STRIP[:SPANS]], members:COUNT and
    /// md:LEVEL:COUNT[:STRIP][:assume-clean] (by mdadm) of the drives below, or model:DRIVE[@PLATFORM][:LEVEL:COUNT[:STRIP[:SPANS]]];
    /// repeat for more. Without it: the arrays that the experiment names.
    #[arg(long, short, value_name = "TARGET")]
    pub target: Vec<String>,
    /// Measure models in virtual time instead of drives: the arrays that the experiment names, or else one drive, on this platform of `stria
    /// plan catalogue`, with the drives of its publication or those named: lsi2208, stria:p4510. One model: --target model:p4510:5:4:64K.
    #[arg(long, value_name = "PLATFORM[:DRIVE]", conflicts_with_all = ["target", "drive", "pool", "host"])]
    pub on: Option<String>,
    /// Size of a file to make, 1GiB if not given, or of an NBD export that does not report one.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub size: Option<u64>,
    /// A drive for arrays; repeat for more.
    #[arg(long, value_name = "DRIVE", value_hint = ValueHint::FilePath, conflicts_with = "pool")]
    pub drive: Vec<PathBuf>,
    /// A folder in which image files are made for arrays.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub pool: Option<PathBuf>,
    /// Size of each such file, 256MiB if not given.
    #[arg(long, value_name = "SIZE", requires = "pool", value_parser = size::parse)]
    pub drive_size: Option<u64>,
    /// A trial: shorter and smaller, and marked as such everywhere.
    #[arg(long)]
    pub scaled: bool,
    /// Only the loads of sweeps that only read, without any preparation: what is there is left as it is.
    #[arg(long)]
    pub read_only: bool,
    /// Only what lies from here on in each target: a size or a share, as 100GiB or 25%.
    #[arg(long, value_name = "SIZE|SHARE", value_parser = Amount::parse)]
    pub offset: Option<Amount>,
    /// Only so much of each target, as 100GiB or 50%; a purge is of the whole all the same.
    #[arg(long, value_name = "SIZE|SHARE", value_parser = Amount::parse)]
    pub share: Option<Amount>,
    /// Measure from another machine, where `fio --server` runs; HOST=/dev/nvme1n1 where the target is called otherwise there; repeat
    /// for several at once.
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Bytes that the maker allows to be written to a drive (TBW).
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub tbw: Option<u64>,
    /// Level of a target that is an array of another make, for theory lines.
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<String>,
    /// Its number of members.
    #[arg(long, value_name = "N", requires = "level")]
    pub members: Option<u32>,
}

/// `stria lab plan`
#[derive(Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub subject: Subject,
    /// Accepted as `run` accepts it: a plan never runs anything.
    #[arg(long)]
    pub dry_run: bool,
    /// The write speed, in MB/s, that is assumed for loads that run for a fixed time.
    #[arg(long, value_name = "MB/S", default_value_t = 500.0)]
    pub speed: f64,
}

/// `stria lab run`
#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub subject: Subject,
    /// Overwrite everything on this drive, file or export: needed for each target that the run does not make itself; repeat for more.
    #[arg(long, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub destroy: Vec<String>,
    /// The run's folder, which must not be there; lab-EXPERIMENT-1 and so on if not given.
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// The page; report.html in the run's folder if not given.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// A remark for the report.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub note: String,
    /// What the platform is: chipset, controller, cabling.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub platform: String,
    /// Keep the files that were made.
    #[arg(long)]
    pub keep: bool,
    /// Afterwards run the same on the models of these drives, show where the models are wrong, and keep that for `stria plan advise --calibrated`:
    /// p4510, p4510@p4510-md.
    #[arg(long, value_name = "DRIVE[@PLATFORM]", conflicts_with = "on")]
    pub verify_plan: Option<String>,
}

/// `stria lab resume`
#[derive(Args, Debug)]
pub struct Resume {
    /// The run's folder.
    #[arg(value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// Overwrite everything on this drive, file or export: given again, since a run's folder may not allow it; repeat for more.
    #[arg(long, value_name = "DRIVE", value_hint = ValueHint::FilePath)]
    pub destroy: Vec<String>,
    /// Measure from this machine, as the run did: given again too; repeat for several.
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
}

/// `stria lab import`
#[derive(Args, Debug)]
pub struct Import {
    /// A file that fio --output-format=json wrote (or json+), or a folder with such files at any depth, as bench-fio leaves them.
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required = true)]
    pub from: Vec<PathBuf>,
    /// What was measured: a name for the report.
    #[arg(long, short, value_name = "NAME")]
    pub target: String,
    /// A remark for the report.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub note: String,
    /// The run's folder, which must not be there; lab-import-1 and so on if not given.
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// `stria lab report`
#[derive(Args, Debug)]
pub struct Report {
    /// The run's folder; of several, one page compares each with the first.
    #[arg(value_hint = ValueHint::DirPath, value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The page; if not given, report.html in the run's folder, or together.html here for several.
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
    /// Vectors; loads nothing from elsewhere.
    Svg,
    /// Pixels, three times the size of the SVG; needs a font on this machine.
    Png,
}

/// `stria lab purpose`
#[derive(Args, Debug)]
pub struct Purpose {
    /// A trace, its format before it where that is not clear (msr:trace.csv.gz), or a run's folder
    #[arg(value_hint = ValueHint::AnyPath, value_name = "TRACE|RUN")]
    pub from: String,
}

/// `stria lab compare`
#[derive(Args, Debug)]
pub struct Compare {
    /// The folders of the run before and the run after; with several runs on each side: those before, then --, then those after.
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
    /// The run's folder; several for tables of all, where the first column names the run.
    #[arg(value_hint = ValueHint::DirPath, value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Format of the tables.
    #[arg(long, default_value = "csv")]
    pub format: Format,
    /// Where the tables go; a folder named after the format in the (first) run's folder if not given.
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
