"""What the doctor checks, a room for each subject: functions of facts that yield findings.

They know what each finding endangers and what to do, and ask nobody anything.
"""
