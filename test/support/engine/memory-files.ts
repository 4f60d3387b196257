/** Files of containers in memory, as `Engine.fileAccess` shows them: folders are there while something is in them. */
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { tar } from '../../../lib/tar.ts';
import { type ContainerFiles, FileError } from '../../../proto/ports/files.ts';

/** `files`: texts by path. Throws when there is no such container. */
export function memoryFiles(files: (id: string) => Map<string, string>): ContainerFiles {
  const under = (id: string, path: string) =>
    [...files(id)].filter(([name]) => name.startsWith(path === '/' ? '/' : `${path}/`));
  const stat: ContainerFiles['stat'] = async (id, path) => {
    const text = files(id).get(path);
    const isFolder = text === undefined && under(id, path).length > 0;
    if (text === undefined && !isFolder) return undefined;
    return { path, isFolder, size: Buffer.byteLength(text ?? ''), mode: 0o644, modifiedMs: 0 };
  };
  return {
    stat,
    read: async (id, path) => {
      const found = await stat(id, path);
      if (found === undefined) throw new FileError('missing', `There is nothing at ${path}.`);
      const cut = path.lastIndexOf('/') + 1;
      const entries = found.isFolder ? under(id, path) : [[path, files(id).get(path) ?? ''] as const];
      const folder = found.isFolder ? [{ kind: 'directory', path: path.slice(cut), mode: 0o755 } as const] : [];
      const inside = entries.map(
        ([name, text]) => ({ kind: 'file', path: name.slice(cut), mode: 0o644, data: Buffer.from(text) }) as const,
      );
      return Readable.from([tar([...folder, ...inside])]);
    },
    write: async (id, folder, archive) => {
      const bytes = await buffer(archive);
      const before = folder === '/' ? '' : folder;
      for (let at = 0; at + 512 <= bytes.length && bytes[at] !== 0; ) {
        const name = bytes.toString('utf8', at, at + 100).replace(/\0.*$/s, '');
        const size = Number.parseInt(bytes.toString('latin1', at + 124, at + 135), 8);
        const path = `${before}/${name}`;
        if (bytes[at + 156] === 0x30) {
          if (under(id, path).length > 0) throw new FileError('is_folder', `${path} is a folder.`);
          files(id).set(path, bytes.toString('utf8', at + 512, at + 512 + size));
        }
        at += 512 + Math.ceil(size / 512) * 512;
      }
    },
    remove: async (id, path) => {
      for (const name of [path, ...under(id, path).map(([inside]) => inside)]) files(id).delete(name);
    },
  };
}
