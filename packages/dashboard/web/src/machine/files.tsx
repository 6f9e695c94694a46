/** Files of a machine: look, download, upload; a checksum shows that all of it arrived. */
import { useEffect, useState, type ChangeEvent, type FormEvent, type ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { queryText } from "../api/paths.ts";
import { formatBytes, formatTime } from "../format.ts";
import { ErrorBox } from "../parts/small.tsx";
import { buildPath, navigate, useQueryValue } from "../route.ts";
import { texts } from "../texts.ts";
import {
  checksum,
  downloadFile,
  joinPath,
  listFiles,
  maxFileBytes,
  parentPath,
  uploadFile,
  type GuestFile,
  type Listing,
} from "./guest-files.ts";

export function Files({ machine }: { readonly machine: MachineRow }): ReactNode {
  const path = useQueryValue("path") || "/";
  const [attempt, setAttempt] = useState(0);
  const { listing, problem } = useListing(machine, path, attempt);
  const [message, setMessage] = useState("");
  const [error, setError] = useState("");
  const fail = (failure: unknown) => setError(failure instanceof Error ? failure.message : String(failure));
  const again = () => setAttempt((before) => before + 1);
  const open = (wanted: string) => {
    setError("");
    if (wanted === path) again();
    else
      navigate(buildPath("machines", machine.namespace, machine.name, "files") + queryText({ path: wanted }));
  };
  const download = (file: GuestFile) => {
    setError("");
    saveFile(machine, joinPath(path, file.name), file).then(setMessage, fail);
  };
  const upload = (event: ChangeEvent<HTMLInputElement>) => {
    const chosen = [...(event.target.files ?? [])];
    event.target.value = "";
    setError("");
    sendFiles(machine, path, { files: chosen, say: setMessage }).then(again, fail);
  };
  return (
    <div className="files">
      <div className="row start">
        <PathForm key={path} path={path} onOpen={open} />
        <button type="button" onClick={() => open(parentPath(path))}>
          {texts.files.up}
        </button>
        <label className="button upload">
          {texts.files.upload}
          <input className="hidden" type="file" multiple onChange={upload} />
        </label>
      </div>
      <h2>{path}</h2>
      <ErrorBox message={problem} onRetry={again} />
      <ErrorBox message={error} />
      <p role="status">{message}</p>
      {problem === "" ? (
        <FileTable
          listing={listing}
          onOpen={(file) => open(joinPath(path, file.name))}
          onDownload={download}
        />
      ) : null}
    </div>
  );
}

/** What is typed stays as it is until another directory is shown. */
function PathForm({
  path,
  onOpen,
}: {
  readonly path: string;
  readonly onOpen: (path: string) => void;
}): ReactNode {
  const [draft, setDraft] = useState(path);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onOpen(draft);
  };
  return (
    <form className="row" onSubmit={submit}>
      <label>
        {texts.files.path}{" "}
        <input value={draft} required onChange={(event) => setDraft(event.target.value)} size={40} />
      </label>
      <button type="submit">{texts.files.open}</button>
    </form>
  );
}

interface ListingState {
  readonly listing: Listing | undefined;
  readonly problem: string;
}

const loading: ListingState = { listing: undefined, problem: "" };

/** The content of that directory and of no other: an answer that comes late is for a directory that was left. */
function useListing(machine: MachineRow, path: string, attempt: number): ListingState {
  const { namespace, name, container } = machine;
  const [state, setState] = useState<ListingState & { readonly path: string }>({ ...loading, path });
  useEffect(() => {
    void attempt; // another attempt reads it again
    const stop = new AbortController();
    listFiles({ namespace, name, container }, path, { signal: stop.signal }).then(
      (listing) => stop.signal.aborted || setState({ listing, problem: "", path }),
      (error: unknown) =>
        stop.signal.aborted ||
        setState({
          listing: undefined,
          problem: error instanceof Error ? error.message : String(error),
          path,
        }),
    );
    return () => stop.abort();
  }, [namespace, name, container, path, attempt]);
  return state.path === path ? state : loading;
}

interface FileTableProps {
  readonly listing: Listing | undefined;
  readonly onOpen: (file: GuestFile) => void;
  readonly onDownload: (file: GuestFile) => void;
}

function FileTable({ listing, onOpen, onDownload }: FileTableProps): ReactNode {
  if (!listing) return <p>{texts.list.loading}</p>;
  if (listing.files.length === 0) return <p>{texts.files.empty}</p>;
  return (
    <>
      {listing.unreadable > 0 ? <p>{texts.files.unnamed(listing.unreadable)}</p> : null}
      <table>
        <thead>
          <tr>
            <th>{texts.column.name}</th>
            <th>{texts.files.size}</th>
            <th>{texts.files.changed}</th>
            <th aria-label={texts.files.download} />
          </tr>
        </thead>
        <tbody>
          {listing.files.map((file) => (
            <tr key={file.name}>
              <td>
                {file.kind === "directory" ? (
                  <button type="button" className="plain" onClick={() => onOpen(file)}>
                    {file.name}/
                  </button>
                ) : (
                  file.name
                )}
              </td>
              <td>{file.kind === "file" ? formatBytes(file.sizeBytes) : ""}</td>
              <td>{formatTime(file.changedAt)}</td>
              <td>
                {file.kind === "file" ? (
                  <button
                    type="button"
                    aria-label={`${texts.files.download} ${file.name}`}
                    onClick={() => onDownload(file)}
                  >
                    {texts.files.download}
                  </button>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

async function saveFile(machine: MachineRow, path: string, { name, sizeBytes }: GuestFile): Promise<string> {
  if (sizeBytes > maxFileBytes) throw new Error(texts.files.tooLarge(formatBytes(maxFileBytes)));
  const bytes = await downloadFile(machine, path);
  const link = document.createElement("a");
  // Never a type that a browser would show as a page.
  link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return texts.files.downloaded(name, await checksum(bytes));
}

interface Sending {
  readonly files: readonly File[];
  readonly say: (text: string) => void;
}

async function sendFiles(machine: MachineRow, directory: string, { files, say }: Sending): Promise<void> {
  for (const file of files) {
    if (file.size > maxFileBytes) throw new Error(texts.files.tooLarge(formatBytes(maxFileBytes)));
    const onProgress = (sent: number) =>
      say(texts.files.uploading(file.name, Math.floor((100 * sent) / Math.max(1, file.size))));
    const arrived = await uploadFile(machine, joinPath(directory, file.name), { input: file, onProgress });
    if (arrived !== (await checksum(await file.arrayBuffer()))) throw new Error(texts.files.differs);
    say(texts.files.uploaded(file.name, arrived));
  }
}
