/** Forms: what sending one does, what was refused of it, and how it ends. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Deed } from '../core/deed.ts';
import { t } from '../text/text.ts';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { Failure } from './note.tsx';

interface FormProps {
  /** What sending it does. */
  readonly deed: Deed<[]>;
  /** Why it cannot be sent yet. */
  readonly reason?: string | undefined;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Form({ deed, reason, class: look = 'stack', children }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  // What was refused may be out of sight.
  useEffect(() => {
    if (deed.error !== undefined) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [deed.error]);
  const submit = (event: Event) => {
    event.preventDefault();
    if (reason === undefined) void deed.run();
  };
  return (
    <form class={look} onSubmit={submit} ref={form}>
      {children}
    </form>
  );
}

/** What was refused as a whole, and not because of one field. */
export function FormFailure({ of: { error } }: { readonly of: Deed<[]> }) {
  return error?.fields.length === 0 ? <Failure error={error} /> : null;
}

interface FormDialogProps extends Omit<FormProps, 'class'> {
  readonly title: string;
  /** The verb on the button. */
  readonly verb: string;
  readonly onClose: () => void;
}

/** A form in a dialog. */
export function FormDialog({ title, verb, deed, reason, onClose, children }: FormDialogProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <Form deed={deed} reason={reason}>
        {children}
        <div class="ends">
          <Button onClick={onClose}>{t.dialog.cancel}</Button>
          <Button type="submit" kind="main" busy={deed.isBusy} reason={reason}>
            {verb}
          </Button>
        </div>
      </Form>
    </Dialog>
  );
}
