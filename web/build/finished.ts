/** What the gateway needs of a build: each file compressed beside it, and the page's files named by their hashes. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';

/** Files of other kinds are compressed already. */
const COMPRESSIBLE = new Set(['.html', '.js', '.css', '.svg', '.webmanifest']);
/** The order of the layers, as `styles/index.css` has it. */
const LAYERS = '@layer reset,tokens,base,layout,parts,screens,states;';
/** What a browser gains nothing by, bytes. */
const TOO_SMALL = 512;

export function finished(): Plugin {
  let folder = '';
  return {
    name: 'finished',
    apply: 'build',
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const name of readdirSync(join(folder, 'assets')))
        if (name.endsWith('.css')) putLayersFirst(join(folder, 'assets', name));
      const page = join(folder, 'index.html');
      writeFileSync(page, withFonts(withIntegrity(readFileSync(page, 'utf8'), folder), folder));
      for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
        if (COMPRESSIBLE.has(extname(name))) compress(join(folder, name));
    },
  };
}

/** Which sheet comes first is the bundler's to choose, and the first one that names a layer places it. */
function putLayersFirst(path: string): void {
  writeFileSync(path, `${LAYERS}${readFileSync(path, 'utf8')}`);
}

/** Subresource Integrity for the scripts and sheets that the page names. */
function withIntegrity(html: string, folder: string): string {
  return html.replace(/<(?:script|link)[^>]*? (?:src|href)="(\/assets\/[^"]+)"/g, (tag, path: string) => {
    const hash = createHash('sha384')
      .update(readFileSync(join(folder, path)))
      .digest('base64');
    return `${tag} integrity="sha384-${hash}"`;
  });
}

/**
 * The fonts are loaded beside the script. A page that finds them in its sheet asks when it draws its first words, looks
 * for other fonts meanwhile, and draws everything again.
 */
function withFonts(html: string, folder: string): string {
  const fonts = readdirSync(join(folder, 'assets')).filter((name) => name.endsWith('.woff2'));
  const tags = fonts.map(
    (name) => `<link rel="preload" as="font" type="font/woff2" crossorigin href="/assets/${name}">`,
  );
  return html.replace('</head>', `  ${tags.join('\n    ')}\n  </head>`);
}

function compress(path: string): void {
  const bytes = readFileSync(path);
  if (bytes.length < TOO_SMALL) return;
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }));
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
}
