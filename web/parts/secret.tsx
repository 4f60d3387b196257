/** A secret that is shown once: it stays until somebody says that it is kept. */
import { Download } from 'lucide';
import { saveText } from '../core/download.ts';
import { t } from '../text/text.ts';
import { Button } from './button.tsx';
import { Code } from './copy.tsx';
import { Dialog } from './dialog.tsx';
import { Note } from './note.tsx';

interface SecretDialogProps {
  readonly title: string;
  /** That it is shown only now, and what to do with it. */
  readonly lead: string;
  readonly text: string;
  /** What it is, such as `the token`. */
  readonly what: string;
  /** The name of the file that it is saved as. */
  readonly file: string;
  readonly onClose: () => void;
}

export function SecretDialog({ title, lead, text, what, file, onClose }: SecretDialogProps) {
  return (
    <Dialog title={title} onClose={onClose} mustStay>
      <Note tone="warn">{lead}</Note>
      <Code text={text} what={what} />
      <div class="ends">
        <Button icon={Download} onClick={() => saveText(file, `${text}\n`)}>
          {t.secret.save}
        </Button>
        <Button kind="main" onClick={onClose}>
          {t.secret.kept}
        </Button>
      </div>
    </Dialog>
  );
}
